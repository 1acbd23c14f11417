// All invalid arguments of a call that can be detected without reading an array: lengths, strides,
// sizes and choices far out of range, for each argument and each field.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/arguments/api_fields.h"

namespace fairdraw::suites {

/// A change to a single argument of a call.
struct Change {
  std::string what;   ///< description for messages, for example "logits.row_stride = -1"
  std::string named;  ///< text that the error message must contain; empty if the error may name
                      ///< another field
  bool may_be_taken;  ///< true if the call may accept the changed argument
  std::function<void()> apply, undo;
};

/// Iterates over the arguments of a call, and over their fields.
class Changes {
 public:
  static constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

  /// `free` lists the fields whose number nothing else in the call determines, so that a larger
  /// number is valid.
  explicit Changes(std::set<std::string> free) : free_(std::move(free)) {}

  std::vector<Change> all;
  /// Arrays that can be filled with meaningless numbers: a description such as "row_begins holds
  /// -1", and the function that fills the array.
  std::vector<std::pair<std::string, std::function<void()>>> contents;
  std::set<std::string> arrays;  ///< names of all arguments that are arrays
  std::set<std::string> given;   ///< names of the array arguments that are not null

  template <class T>
  void collect(const std::string& name, T& object) {
    if constexpr (requires { Fields<T>::kNames; }) {
      collect_each(name, Fields<T>::kNames, Fields<T>::of(object));
    } else {
      add(name, object);
    }
  }

  template <class... T>
  void collect_each(const std::string& prefix, const std::string& names, std::tuple<T...> fields) {
    std::size_t number = 0;
    std::apply(
        [&](auto&... field) {
          (collect((prefix.empty() ? "" : prefix + ".") + name_in(names, number++), field), ...);
        },
        fields);
  }

 private:
  /// Returns the last name of a path; every error message contains this name.
  static std::string last(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    return dot == std::string::npos ? name : name.substr(dot + 1);
  }

  template <class T>
  void change(const std::string& what, const std::string& named, bool may_be_taken, T& field,
              T value) {
    const T before = field;
    all.push_back({what, named, may_be_taken, [&field, value] { field = value; },
                   [&field, before] { field = before; }});
  }

  template <class T>
  void number(const std::string& name, const std::string& named, T& field,
              std::initializer_list<std::int64_t> values, bool may_be_taken = false) {
    for (const std::int64_t value : values) {
      change(name + " = " + std::to_string(value), named, may_be_taken, field,
             static_cast<T>(value));
    }
  }

  template <class T>
  bool note(const std::string& name, const T* data) {
    arrays.insert(name);
    if (data != nullptr) given.insert(name);
    return data != nullptr;
  }

  template <class T>
  void fill(const std::string& name, T* data, std::int64_t size) {
    using Value = std::remove_const_t<T>;
    if constexpr (std::is_enum_v<Value> && !std::is_same_v<Value, RowStatus>) {
      contents.emplace_back(name + " holds no rule", [data = const_cast<Value*>(data), size] {
        std::fill_n(data, size,
                    static_cast<Value>(std::numeric_limits<std::underlying_type_t<Value>>::max()));
      });
    }
    if constexpr (std::is_integral_v<Value> && std::is_signed_v<Value>) {
      for (const Value value :
           {std::numeric_limits<Value>::max(), std::numeric_limits<Value>::min(), Value{-1}}) {
        // Arrays of calls are writable, even if their views are const.
        contents.emplace_back(name + " holds " + std::to_string(value),
                              [data = const_cast<Value*>(data), size, value] {  // NOLINT
                                std::fill_n(data, size, value);
                              });
      }
    }
  }

  /// Adds changes that give an array another length, and a change to a null pointer, which is
  /// rejected by name or means an absent array.
  template <class T>
  void add(const std::string& name, View<T>& view) {
    if (!note(name, view.data)) return;
    fill(name, view.data, view.size);
    number(name + ".size", "", view.size,
           {kMax, kMin, -1, std::int64_t{1} << 60, (std::int64_t{1} << 62) + 1});
    // If nothing else in the call has that length, a length that is greater by one is an error that
    // cannot be detected.
    if (!free_.contains(name)) number(name + ".size", "", view.size, {view.size + 1});
    change<T*>(name + " = null", last(name), true, view.data, nullptr);
  }

  template <class T>
  void add(const std::string& name, PerRequest<T>& parameter) {
    add(name, parameter.values);
  }

  void stride(const std::string& name, std::int64_t& field) {
    const std::string full = name + ".row_stride";
    for (const std::int64_t value : {kMax, kMax - 63, kMin, std::int64_t{-1}, std::int64_t{0},
                                     field - 1, std::int64_t{1} << 60, std::int64_t{1} << 61,
                                     std::int64_t{1} << 62, (std::int64_t{1} << 62) + 1}) {
      change(full + " = " + std::to_string(value),
             last(name) + ".row_stride is " + std::to_string(value), false, field, value);
    }
  }

  void rows(const std::string& name, std::int64_t& field) {
    number(name + ".rows", "", field,
           {kMax, kMin, -1, std::int64_t{1} << 60, (std::int64_t{1} << 62) + 1});
    const bool is_free = free_.contains(name);
    number(name + ".rows", "", field, {field + 1}, is_free);
    if (!is_free) number(name + ".rows", "", field, {std::numeric_limits<std::int32_t>::max()});
  }

  void add(const std::string& name, RowsView& view) {
    auto& [data, dtype, count, vocab, row_stride] = view;
    if (!note(name, data)) return;
    change<const void*>(name + ".data = null", last(name), false, data, nullptr);
    add(name + ".dtype", dtype);
    rows(name, count);
    number(name + ".vocab", "", vocab, {kMax, kMin, -1, 0, kMaxVocab + 1, vocab + 1});
    stride(name, row_stride);
  }

  /// Adds the changes of a matrix that may be absent.
  template <class Matrix>
  void add_matrix(const std::string& name, Matrix& matrix) {
    auto& [data, count, row_stride] = matrix;
    if (!note(name, data)) return;
    change<std::remove_reference_t<decltype(data)>>(name + ".data = null", last(name), true, data,
                                                    nullptr);
    rows(name, count);
    stride(name, row_stride);
  }
  void add(const std::string& name, FloatRows& floats) { add_matrix(name, floats); }
  void add(const std::string& name, TokenCounts& counts) { add_matrix(name, counts); }
  template <class Word>
  void add(const std::string& name, BitRows<Word>& bits) {
    add_matrix(name, bits);
  }
  template <class T>
  void add(const std::string& name, TileRows<T>& tiles) {
    add_matrix(name, tiles);
  }

  void add(const std::string& name, TokenLists& lists) {
    auto& [data, size, begins, lengths] = lists;
    if (!note(name, lengths.data)) return;
    fill(name, data, size);
    change<const std::int32_t*>(name + ".data = null", last(name), false, data, nullptr);
    number(name + ".size", last(name), size,
           {kMax, kMin, -1, std::int64_t{1} << 60, (std::int64_t{1} << 62) + 1});
    add(name + ".begins", begins);
    add(name + ".lengths", lengths);
  }

  /// Adds changes to invalid counts, or to invalid values of a stride that is an argument of its
  /// own.
  template <class T>
    requires std::is_integral_v<T>
  void add(const std::string& name, T& field) {
    const bool may_be_taken = free_.contains(name);
    number(name, "", field, {std::numeric_limits<T>::max(), std::numeric_limits<T>::min(), -1},
           may_be_taken);
    if constexpr (sizeof(T) == 8) {
      number(name, "", field, {std::int64_t{1} << 60, (std::int64_t{1} << 62) + 1}, may_be_taken);
    }
  }

  /// Adds shares outside [0, 1].
  void add(const std::string& name, float& field) {
    for (const float value : {-0.5F, 1.5F, std::numeric_limits<float>::quiet_NaN()}) {
      change(name + " = " + std::to_string(value), last(name) + " is ",
             value > 1 && free_.contains(name), field, value);
    }
  }

  /// Adds changes to enumerators that do not exist.
  template <class T>
    requires std::is_enum_v<T>
  void add(const std::string& name, T& field) {
    for (const std::uint32_t value : {100U, 256U, 0x80000000U, 0xffffffffU}) {
      change(name + " = " + std::to_string(value), last(name) + " is " + std::to_string(value),
             false, field, static_cast<T>(value));
    }
  }

  /// Adds a change to null for untyped memory of rows that a call writes; the memory of an
  /// execution is exempt.
  void add(const std::string& name, void*& pointer) {
    if (name == "execution.stream" || name == "execution.workspace") return;
    if (note(name, pointer)) change<void*>(name + " = null", last(name), true, pointer, nullptr);
  }

  std::set<std::string> free_;
};

}  // namespace fairdraw::suites
