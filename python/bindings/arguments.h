// Reads the arguments that several operations share: filters, seeds, bits, lists and arrays of
// results.
//
// As in arrays.h, the first parameter is the argument's name, which errors contain.
#pragma once

#include <fmt/format.h>

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "fairdraw/sampling.h"
#include "fairdraw/token_lists.h"
#include "fairdraw/types.h"
#include "python/bindings/arrays.h"

namespace fairdraw::python {

class Named;

/// Returns the place where a call runs: a device, and on GPUs also a stream and a workspace. The
/// argument `workspace` is an array as in arrays.h, or a function that bring_workspace calls to get
/// an array.
Place place_of(const Named& given, const InputArray& rows);

Parameter<float> probability(const char* name, nb::handle object, const Place& place);
Parameter<float> temperature_of(nb::handle object, const Place& place);
Parameter<std::int32_t> top_k_of(nb::handle object, const Place& place);

/// A rule that has one value for the call (a member of the enum, or its number), or one number per
/// row.
template <class Rule>
class Rules {
 public:
  Rules(const char* name, nb::handle object, const Place& place) {
    if (Rule rule{}; nb::try_cast(nb::borrow(object), rule)) {
      value = rule;
      return;
    }
    read_parameter(name, object, place, numbers_);
    const View<const std::int32_t>& each = numbers_.value.values;
    if (!each.given()) {
      if (numbers_.value.scalar != 0 && numbers_.value.scalar != 1) {
        throw_value_error(
            fmt::format("{} is {}; allowed: 0 or 1, or a name", name, numbers_.value.scalar));
      }
      value = static_cast<Rule>(numbers_.value.scalar);
    } else if (place.on_cuda()) {
      value = {reinterpret_cast<const Rule*>(each.data), each.size};
    } else {
      for (std::int64_t i = 0; i < each.size; ++i) {
        converted_.push_back(static_cast<Rule>(each.data[i]));
      }
      converted_.reserve(1);  // keeps data() from being null if the array is empty
      value = {converted_.data(), each.size};
    }
  }
  PerRequest<Rule> value;

 private:
  Parameter<std::int32_t> numbers_;
  std::vector<Rule> converted_;
};

/// Seeds, offsets and, if the call has them, row indices, with the arrays that hold these values.
struct Options {
  Parameter<std::uint64_t> seed, offset;
  Indices indices;
  /// The seed is a constant at first, because a fresh seed takes as long as a draw.
  DrawOptions draw{.seed = std::uint64_t{0}, .indices = {}};

  Options(const Named& given, std::int32_t num_samples, const Place& place,
          bool with_indices = true);
  // `draw` points into the other members, so that a copy would point into the wrong object.
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  std::int64_t outputs(const RowsView& rows) const {
    return indices.view.given() ? indices.view.size : rows.rows;
  }
};

/// Returns true if an array is contiguous in memory, in the order of its axes.
bool is_contiguous(const InputArray& array);

/// A result array of T, or an empty view for None.
template <class T, class Stored = T>
class Output {
 public:
  Output(const char* name, nb::handle object, std::int64_t size, const Place& place) {
    if (object.is_none()) return;
    array_ = output_array(name, object, nb::dtype<Stored>(), size, place);
    view = {static_cast<T*>(array_.data()), size};
  }
  const OutputArray& array() const { return array_; }
  View<T> view;

 private:
  OutputArray array_;
};
using Statuses = Output<RowStatus, std::int32_t>;

/// An array of T that is read in place, or an empty view for None. fairdraw/_host_arrays.py and
/// fairdraw/_device_arrays.py convert users' values to such arrays, and the kernels check the
/// arrays' lengths.
template <class T, class Stored = T>
class Input {
 public:
  /// Reads an array on any device, for the argument that decides on which device the call runs:
  /// place_of(array()).
  Input(const char* name, nb::handle object) { read(name, object, nullptr); }
  Input(const char* name, nb::handle object, const Place& place) { read(name, object, &place); }

  const InputArray& array() const { return array_; }
  View<const T> view;

 private:
  void read(const char* name, nb::handle object, const Place* place) {
    if (object.is_none()) return;
    array_ = input_array(name, object, place);
    if (array_.dtype() != nb::dtype<Stored>() || !is_contiguous(array_)) {
      throw_type_error(fmt::format("{} holds {}; {} is needed, contiguous", name,
                                   dtype_name(array_.dtype()), dtype_name(nb::dtype<Stored>())));
    }
    // A view without data means "not given", so that even an empty array needs an address.
    view = {array_.size() == 0 ? &kNothing : static_cast<const T*>(array_.data()),
            static_cast<std::int64_t>(array_.size())};
  }

  static constexpr T kNothing{};
  InputArray array_;
};

/// Arguments by name. Raises TypeError for a missing argument name. When the call begins, raises
/// TypeError for a name that nobody has read. Copies of Named share one state, which keeps the
/// arrays alive that the views of `input` and `output` point to.
class Named {
 public:
  /// `call` is the name of the function, for errors.
  Named(const char* call, nb::handle given);

  nb::handle operator[](const char* name) const;
  bool has(const char* name) const { return !(*this)[name].is_none(); }
  /// Returns a value of a type that nanobind converts: a number, an enum, a string or a list of
  /// these.
  template <class T>
  T as(const char* name) const {
    T value{};
    if (!nb::try_cast(nb::borrow((*this)[name]), value)) refuse(name);
    return value;
  }
  /// Returns the view of an Input or of an Output. `label` is the argument's name in errors, if the
  /// name differs from `name`.
  template <class T, class Stored = T>
  View<const T> input(const char* name, const Place& place) const {
    const Input<T, Stored> read(name, (*this)[name], place);
    state_->inputs.push_back(read.array());
    return read.view;
  }
  template <class T, class Stored = T>
  View<T> output(const char* name, std::int64_t size, const Place& place,
                 const char* label = nullptr) const {
    const Output<T, Stored> written(label == nullptr ? name : label, (*this)[name], size, place);
    state_->outputs.push_back(written.array());
    return written.view;
  }
  View<RowStatus> statuses(std::int64_t size, const Place& place) const {
    return output<RowStatus, std::int32_t>("statuses", size, place);
  }
  void expect_all_read() const;

 private:
  static constexpr std::size_t kMaxNames = 512;  ///< an upper bound of the number of argument
                                                 ///< names of all operations together
  struct Key {
    PyObject* name;
    std::size_t number;
  };
  static const Key& key_of(const char* literal);
  [[noreturn]] void refuse(const char* name) const;

  struct State {
    const char* call;
    nb::dict given;
    std::bitset<kMaxNames> read;
    std::vector<InputArray> inputs;
    std::vector<OutputArray> outputs;
  };
  std::shared_ptr<State> state_;
};

/// Lists of token ids, empty for None. The argument is a tuple of ids (int32), begins (int64) and
/// lengths (int32).
class Lists {
 public:
  Lists(const char* name, nb::handle object, const Place& place);
  TokenLists view;

 private:
  Input<std::int32_t> ids_;
  Input<std::int64_t> begins_;
  Input<std::int32_t> lengths_;
};

/// Returns the bits of a matrix of words [rows, >= ceil(vocab / 32)]. The words are uint32, or
/// int32, which torch uses for words.
template <class Word, class Array>
BitRows<Word> bit_rows(const char* name, const Array& array, std::int64_t vocab) {
  const bool words =
      array.dtype().bits == 32 && array.dtype().lanes == 1 &&
      (array.dtype() == nb::dtype<std::uint32_t>() || array.dtype() == nb::dtype<std::int32_t>());
  if (!words) {
    throw_type_error(fmt::format("{} holds {}; packed words of uint32 or int32 are needed", name,
                                 dtype_name(array.dtype())));
  }
  if (array.ndim() != 2) {
    throw_type_error(
        fmt::format("{} has {} axes; 2 are needed: [rows, ceil(vocab / 32)]", name, array.ndim()));
  }
  const auto needed = (vocab + 31) / 32;
  const auto columns = static_cast<std::int64_t>(array.shape(1));
  const auto count = static_cast<std::int64_t>(array.shape(0));
  const bool apart = count > 0 && columns > 1 && array.stride(1) != 1;
  if (columns < needed || apart) {
    throw_value_error(fmt::format(
        "{}: {} words per row, {} apart; allowed: >= {} (ceil(vocab / 32)), side by side", name,
        columns, array.stride(1), needed));
  }
  return {static_cast<Word*>(array.data()), count, count > 1 ? array.stride(0) : columns};
}

/// Returns a flag per row or request, from a contiguous array of bool or uint8 along one axis.
View<const std::uint8_t> flags_of(const char* name, const InputArray& array);

/// Makes a call without the Python interpreter's lock, and raises the error that the call returns.
template <class Call>
void run_on_host(const Call& call) {
  Error error;
  {
    const nb::gil_scoped_release others_may_run;
    error = call();
  }
  raise(error);
}

/// Makes the call on the device of `place`, after all arguments are read. `on_cpu` or `on_cuda`
/// gets the place's Execution.
template <class OnCpu, class OnCuda>
void run(const Named& given, const Place& place, OnCpu on_cpu, OnCuda on_cuda) {
  given.expect_all_read();
  run_on_host([&] { return place.on_cuda() ? on_cuda(place.cuda) : on_cpu(place.cpu); });
}

/// Makes a call in the same way, if the call has one overload per backend, which differ by the
/// Execution's type.
template <class Call>
void run(const Named& given, const Place& place, const Call& call) {
  run(given, place, call, call);
}

/// Defines a Python function whose only argument is a mapping from argument names to values.
template <class Function>
void define(nb::module_& module, const char* name, Function function) {
  module.def(name,
             [name, function](const nb::dict& given) { return function(Named(name, given)); });
}

}  // namespace fairdraw::python
