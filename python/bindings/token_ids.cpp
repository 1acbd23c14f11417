#include "python/bindings/token_ids.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <utility>

#include "python/bindings/arrays.h"
#include "python/bindings/lent_call.h"

namespace fairdraw::python {
namespace {

std::string outside_int32(const std::string& id, std::int64_t at, const WantedIds& wanted) {
  return fmt::format("{} returned {} {} at position {}, which is outside int32", wanted.who,
                     wanted.one, id, at);
}

template <class Source>
std::string copy_ids(const InputArray& array, const WantedIds& wanted) {
  const std::int64_t step_output = array.stride(0);
  const std::int64_t step_sample = array.ndim() == 2 ? array.stride(1) : 0;
  const auto* const first = static_cast<const std::byte*>(array.data());
  const auto size = static_cast<std::int64_t>(array.size());
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t at = i / wanted.samples * step_output + i % wanted.samples * step_sample;
    Source id{};
    std::memcpy(&id, first + at * static_cast<std::int64_t>(sizeof(Source)), sizeof(id));
    if (!std::in_range<std::int32_t>(id)) return outside_int32(fmt::format("{}", id), i, wanted);
    wanted.ids[i] = static_cast<std::int32_t>(id);
  }
  return {};
}

std::string shape_of(const InputArray& array) {
  std::string text = "[";
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(array.shape(i));
  }
  return text + "]";
}

std::string take_array(const InputArray& array, const WantedIds& wanted) {
  if (array.device_type() != nb::device::cpu::value) {
    return fmt::format("{} returned an array on {}; bring it to the CPU", wanted.who,
                       device_name(array.device_type(), array.device_id()));
  }
  const auto length = [&array](std::size_t i) { return static_cast<std::int64_t>(array.shape(i)); };
  const bool fits =
      (array.ndim() == 1 && wanted.samples == 1 && length(0) == wanted.outputs) ||
      (array.ndim() == 2 && length(0) == wanted.outputs && length(1) == wanted.samples);
  if (!fits) {
    return fmt::format("{} returned {} of shape {}; [{}{}] is needed", wanted.who, wanted.all,
                       shape_of(array), wanted.outputs,
                       wanted.samples > 1 ? fmt::format(", {}", wanted.samples) : "");
  }
  const nb::dlpack::dtype dtype = array.dtype();
  if (array.size() == 0) return {};
  if (dtype == nb::dtype<std::int32_t>()) {
    return copy_ids<std::int32_t>(array, wanted);
  }
  if (dtype == nb::dtype<std::int64_t>()) {
    return copy_ids<std::int64_t>(array, wanted);
  }
  if (dtype == nb::dtype<std::uint32_t>()) {
    return copy_ids<std::uint32_t>(array, wanted);
  }
  if (dtype == nb::dtype<std::uint64_t>()) {
    return copy_ids<std::uint64_t>(array, wanted);
  }
  return fmt::format("{} returned {} values; {} are int32 or int64", wanted.who, dtype_name(dtype),
                     wanted.kind);
}

// Takes a list of integers, or of lists of num_samples integers.
std::string take_sequence(nb::handle sequence, const WantedIds& wanted) {
  const auto wrong_length = [&wanted](std::size_t got, std::int64_t needed, const char* what) {
    return fmt::format("{} returned {} {}; {} are needed", wanted.who, got, what, needed);
  };
  if (std::cmp_not_equal(nb::len(sequence), wanted.outputs)) {
    return wrong_length(nb::len(sequence), wanted.outputs, wanted.all);
  }
  std::int64_t at = 0;
  const auto put = [&](nb::handle item) -> std::string {
    // The integers of NumPy and the scalars of torch have __index__, while floats do not.
    const nb::object index = nb::steal(PyNumber_Index(item.ptr()));
    if (!index.is_valid()) {
      PyErr_Clear();
      return fmt::format("{} returned a {} at position {}; {} are integers", wanted.who,
                         name_of_type(item), at, wanted.kind);
    }
    int overflow = 0;
    const long long id = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    if (overflow != 0 || !std::in_range<std::int32_t>(id)) {
      return outside_int32(nb::cast<std::string>(nb::str(index)), at, wanted);
    }
    wanted.ids[at++] = static_cast<std::int32_t>(id);
    return {};
  };
  for (const nb::handle item : sequence) {
    const bool nested = nb::isinstance<nb::list>(item) || nb::isinstance<nb::tuple>(item);
    if (!nested && wanted.samples == 1) {
      if (std::string wrong = put(item); !wrong.empty()) return wrong;
      continue;
    }
    if (!nested || std::cmp_not_equal(nb::len(item), wanted.samples)) {
      return wrong_length(nested ? nb::len(item) : 1, wanted.samples, "samples of an output");
    }
    for (const nb::handle inner : item) {
      if (std::string wrong = put(inner); !wrong.empty()) return wrong;
    }
  }
  return {};
}

}  // namespace

std::string take_ids(nb::handle result, const WantedIds& wanted) {
  if (result.is_none()) {
    return fmt::format("{} returned None; {} are needed{}", wanted.who, wanted.kind,
                       wanted.or_instead);
  }
  if (nb::isinstance<nb::list>(result) || nb::isinstance<nb::tuple>(result)) {
    return take_sequence(result, wanted);
  }
  InputArray array;
  if (!nb::try_cast(result, array, false) || !array.is_valid()) {
    return fmt::format("{} returned a {}; an array or a list of {} is needed", wanted.who,
                       name_of_type(result), wanted.kind);
  }
  return take_array(array, wanted);
}

}  // namespace fairdraw::python
