// Describes the arrays of the contract's calls, each array once. All code that walks over the
// arrays of a call (guards, hashes, copies to a device and back, names in messages) uses this
// description.
//
// The types in the C structs say the rest: `const T*` is an input and `T*` a result, T is the type
// of a value, and void stands for the dtype of the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "harness/contract/batch.h"
#include "harness/contract/operation.h"

namespace fairdraw::harness {

constexpr std::int64_t words_for(std::int64_t vocab) { return (vocab + 31) / 32; }

/// Returns the number of bytes of a value of `dtype`, as fairdraw_batch.dtype defines it.
constexpr std::int64_t element_bytes(std::uint32_t dtype) { return dtype == 0 ? 4 : 2; }

/// One array of a call: `rows` rows of `width` values, whose starts are `stride` values apart.
struct CallArray {
  const char* name = nullptr;
  bool optional = false;  ///< may be null
  std::int64_t value_bytes = 0;
  std::int64_t rows = 0, width = 0, stride = 0;

  /// Returns the number of bytes from the first value to the end of the last row. Returns 0 if the
  /// sizes are invalid, because the sampler must refuse such a call.
  constexpr std::int64_t bytes() const {
    const bool sensible = rows > 0 && width > 0 && stride >= 0;
    return sensible ? ((rows - 1) * stride + width) * value_bytes : 0;
  }
};

/// True if the sampler writes to this pointer of a call, so that it is a result.
template <class Pointer>
inline constexpr bool is_result =
    !std::is_const_v<std::remove_pointer_t<std::remove_cvref_t<Pointer>>>;

/// The type of the values to which a pointer of a call points.
template <class Pointer>
using ValueOf = std::remove_const_t<std::remove_pointer_t<std::remove_cvref_t<Pointer>>>;

/// The accessor of a field within a nested struct.
template <class Outer, class Inner>
struct NestedField {
  template <class Of>
  constexpr auto operator()(Of& of) const -> decltype(Inner{}(Outer{}(of))) {
    return Inner{}(Outer{}(of));
  }
};

/// Passes the arrays of `call` to visit(field, CallArray). The accessor field(call) returns the
/// pointer, and field(x) the member of the same name in any other struct.
template <class Call, class Visit>
class ArrayDescriber {
 public:
  constexpr ArrayDescriber(const Call& call, const Visit& visit) : call_(call), visit_(visit) {}

  template <class Field>
  constexpr void required(const char* name, Field field, std::int64_t values) const {
    describe(name, field, false, 1, values, values);
  }
  template <class Field>
  constexpr void optional(const char* name, Field field, std::int64_t values) const {
    describe(name, field, true, 1, values, values);
  }
  template <class Field>
  constexpr void required_rows(const char* name, Field field, std::int64_t rows, std::int64_t width,
                               std::int64_t stride) const {
    describe(name, field, false, rows, width, stride);
  }
  template <class Field>
  constexpr void optional_rows(const char* name, Field field, std::int64_t rows, std::int64_t width,
                               std::int64_t stride) const {
    describe(name, field, true, rows, width, stride);
  }

 private:
  template <class Field>
  constexpr void describe(const char* name, Field field, bool optional, std::int64_t rows,
                          std::int64_t width, std::int64_t stride) const {
    using Value = ValueOf<decltype(field(call_))>;
    if constexpr (std::is_void_v<Value>) {
      visit_(field, CallArray{name, optional, element_bytes(call_.dtype), rows, width, stride});
    } else {
      visit_(field, CallArray{name, optional, sizeof(Value), rows, width, stride});
    }
  }

  const Call& call_;
  const Visit& visit_;
};

// Expands to two arguments: the name of a member, and its accessor.
#define FAIRDRAW_FIELD(member) \
  #member, [](auto& of) constexpr -> decltype((of.member)) { return of.member; }

/// The descriptions of the arrays of each type of call: CallArrays<Call>::each(call, visit) visits
/// all arrays in a fixed order.
template <class Call>
struct CallArrays;

struct ListNames {
  const char *data, *begins, *lengths;
};

template <>
struct CallArrays<fairdraw_processing> {
  /// Calls visit(ListNames, field) for each member of type fairdraw_token_lists.
  template <class Visit>
  static constexpr void each_lists(const Visit& visit) {
    const auto lists = [&visit](const char* /*name*/, auto field, const ListNames& names) {
      visit(names, field);
    };
#define FAIRDRAW_LISTS(member) \
  FAIRDRAW_FIELD(member), ListNames { #member, #member ".begins", #member ".lengths" }
    lists(FAIRDRAW_LISTS(prompt));
    lists(FAIRDRAW_LISTS(output));
    lists(FAIRDRAW_LISTS(bias_ids));
    lists(FAIRDRAW_LISTS(stop_ids));
    lists(FAIRDRAW_LISTS(bad_words));
    lists(FAIRDRAW_LISTS(bad_word_lengths));
    lists(FAIRDRAW_LISTS(allowed_ids));
    lists(FAIRDRAW_LISTS(forced_tokens));
    lists(FAIRDRAW_LISTS(dry_breakers));
#undef FAIRDRAW_LISTS
  }

  template <class Visit>
  static constexpr void each(const fairdraw_processing& call, std::int64_t rows, std::int64_t vocab,
                             const Visit& visit) {
    const ArrayDescriber arrays(call, visit);
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) \
  arrays.optional(FAIRDRAW_FIELD(name), rows);
#include "fairdraw/processing_parameters.inc"
    arrays.optional(FAIRDRAW_FIELD(prompt_mask), rows * words_for(vocab));
    arrays.optional(FAIRDRAW_FIELD(output_counts), rows * vocab);
    arrays.optional(FAIRDRAW_FIELD(output_lengths), rows);
    arrays.optional(FAIRDRAW_FIELD(bias_values), call.bias_ids.size);
    each_lists([&](const ListNames& names, auto lists) {
      const auto part = [&](const char* /*name*/, auto field, const char* name,
                            std::int64_t values) {
        arrays.optional(name, NestedField<decltype(lists), decltype(field)>{}, values);
      };
      part(FAIRDRAW_FIELD(data), names.data, lists(call).size);
      part(FAIRDRAW_FIELD(begins), names.begins, rows);
      part(FAIRDRAW_FIELD(lengths), names.lengths, rows);
    });
  }

  /// Describes the arrays of call.processing as arrays of the call.
  template <class Call, class Visit>
  static constexpr void each_of(const Call& call, const Visit& visit) {
    const auto within = [&](const char* /*name*/, auto outer) {
      each(outer(call), call.rows, call.vocab, [&visit](auto field, const CallArray& array) {
        visit(NestedField<decltype(outer), decltype(field)>{}, array);
      });
    };
    within(FAIRDRAW_FIELD(processing));
  }
};

template <>
struct CallArrays<fairdraw_batch> {
  template <class Visit>
  static constexpr void each(const fairdraw_batch& call, const Visit& visit) {
    const std::int64_t rows = call.rows, vocab = call.vocab, words = words_for(vocab);
    const std::int64_t outputs = call.outputs, tokens = outputs * call.num_samples;
    const std::int64_t seeds = call.seed_is_scalar != 0 ? 1 : outputs;
    const std::int64_t entries = outputs * call.top_n;
    const ArrayDescriber arrays(call, visit);
    arrays.required_rows(FAIRDRAW_FIELD(logits), rows, vocab, call.row_stride);
    arrays.required(FAIRDRAW_FIELD(temperature), rows);
    arrays.required(FAIRDRAW_FIELD(top_k), rows);
    arrays.required(FAIRDRAW_FIELD(top_p), rows);
    arrays.required(FAIRDRAW_FIELD(min_p), rows);
    arrays.optional_rows(FAIRDRAW_FIELD(allowed), rows, words, call.allowed_stride);
    arrays.optional(FAIRDRAW_FIELD(active), rows);
    arrays.optional(FAIRDRAW_FIELD(indices), outputs);
    arrays.required(FAIRDRAW_FIELD(seed), seeds);
    arrays.required(FAIRDRAW_FIELD(offset), seeds);
    arrays.optional(FAIRDRAW_FIELD(words), tokens);
    arrays.required(FAIRDRAW_FIELD(tokens), tokens);
    arrays.optional(FAIRDRAW_FIELD(statuses), outputs);
    arrays.optional(FAIRDRAW_FIELD(support_size), outputs);
    arrays.optional(FAIRDRAW_FIELD(logprob), tokens);
    arrays.optional(FAIRDRAW_FIELD(logprob_filtered), tokens);
    arrays.optional_rows(FAIRDRAW_FIELD(mask), rows, words, call.mask_stride);
    arrays.optional_rows(FAIRDRAW_FIELD(probs), rows, vocab, call.probs_stride);
    CallArrays<fairdraw_processing>::each_of(call, visit);
    arrays.optional(FAIRDRAW_FIELD(report_values), tokens);
    arrays.optional(FAIRDRAW_FIELD(report_ranks), tokens);
    arrays.optional(FAIRDRAW_FIELD(report_top_ids), entries);
    arrays.optional(FAIRDRAW_FIELD(report_top_values), entries);
    arrays.optional_rows(FAIRDRAW_FIELD(report_all), rows, vocab, call.report_all_stride);
    arrays.optional(FAIRDRAW_FIELD(mark_key), rows);
    arrays.optional(FAIRDRAW_FIELD(mark_output), rows * call.mark_output_size);
  }
};

template <>
struct CallArrays<fairdraw_operation> {
  template <class Visit>
  static constexpr void each(const fairdraw_operation& call, const Visit& visit) {
    const std::int64_t rows = call.rows;
    const std::int64_t parameters = call.parameter_is_scalar != 0 ? 1 : rows;
    const ArrayDescriber arrays(call, visit);
    arrays.required_rows(FAIRDRAW_FIELD(values), rows, call.vocab, call.row_stride);
    // The kind of the operation decides which of the parameters must be given.
    arrays.optional(FAIRDRAW_FIELD(temperature), parameters);
    arrays.optional(FAIRDRAW_FIELD(top_k), parameters);
    arrays.optional(FAIRDRAW_FIELD(top_p), parameters);
    arrays.optional(FAIRDRAW_FIELD(min_p), parameters);
    const auto result = [&](const char* name, auto field) {  // the result has a dtype of its own
      visit(field, CallArray{name, false, element_bytes(call.result_dtype), rows, call.vocab,
                             call.result_stride});
    };
    result(FAIRDRAW_FIELD(result));
    arrays.optional(FAIRDRAW_FIELD(statuses), rows);
  }
};

/// Calls visit(pointer, CallArray) for every array of a call, whether it is given or not. The
/// function `visit` may change each pointer.
template <class Call, class Visit>
constexpr void each_array(Call& call, const Visit& visit) {
  CallArrays<std::remove_const_t<Call>>::each(
      call, [&](auto field, const CallArray& array) { visit(field(call), array); });
}

template <class Call>
constexpr std::size_t array_count() {
  std::size_t count = 0;
  const Call call{};
  each_array(call, [&count](const auto& /*pointer*/, const CallArray& /*array*/) { ++count; });
  return count;
}

struct NamedArray {
  const char* name;
  const void* first;
};

/// Lists the arrays that are given in a call, with their names, for messages about addresses.
template <class Call>
std::vector<NamedArray> named_arrays(const Call& call) {
  std::vector<NamedArray> names;
  each_array(call, [&names](const auto& pointer, const CallArray& array) {
    if (pointer != nullptr) names.push_back({array.name, pointer});
  });
  return names;
}

}  // namespace fairdraw::harness
