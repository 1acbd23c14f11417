// Arrays of a call as vectors on the host, and the views over them in host or device memory: for
// whole calls that run on several backends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fairdraw/logits_processing.h"
#include "fairdraw/types.h"

namespace fairdraw::suites {

/// A parameter of a request: an array where `values` has any, else the scalar.
template <class T>
struct CallParameter {
  T scalar{};
  std::vector<T> values;
  bool is_array = false;

  T at(std::int64_t i) const { return is_array ? values[static_cast<std::size_t>(i)] : scalar; }
  T& set(std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
  void make_array(std::int64_t size) {
    values.assign(static_cast<std::size_t>(size), scalar);
    is_array = true;
  }
};

/// Lists of tokens, one a row; not given where `lengths` is empty.
struct CallLists {
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> begins;
  std::vector<std::int32_t> lengths;

  void add(const std::vector<std::int32_t>& list) {
    begins.push_back(static_cast<std::int64_t>(ids.size()));
    lengths.push_back(static_cast<std::int32_t>(list.size()));
    ids.insert(ids.end(), list.begin(), list.end());
  }
};

/// Logits processing of a call. Vectors that are empty are not given.
struct CallProcessing {
  CallParameter<float> repetition_penalty{1.0F, {}};
  CallParameter<float> frequency_penalty{0.0F, {}}, presence_penalty{0.0F, {}};
  CallLists prompt, output;
  std::vector<std::uint32_t> prompt_mask;
  std::int64_t mask_stride = 0;
  std::vector<std::int32_t> output_counts;
  std::int64_t counts_stride = 0;
  CallLists bias_ids;
  std::vector<float> bias_values;
  CallParameter<std::int32_t> min_tokens{0, {}};
  CallLists stop_ids;
  std::vector<std::int32_t> output_lengths;
  CallLists bad_words, bad_word_lengths, allowed_ids;
};

/// Where the CPU has the arrays of a call: the vectors themselves. DeviceArrays is its like.
class HostArrays {
 public:
  template <class T>
  const T* in(const std::vector<T>& values) {
    return values.empty() ? nullptr : values.data();
  }
  template <class T>
  T* out(std::vector<T>& values) {
    return values.empty() ? nullptr : values.data();
  }
  void ready() const {}
};

template <class T, class Arrays>
PerRequest<T> parameter_in(const CallParameter<T>& parameter, Arrays& arrays) {
  if (!parameter.is_array) return parameter.scalar;
  return {arrays.in(parameter.values), static_cast<std::int64_t>(parameter.values.size())};
}

template <class Arrays>
TokenLists lists_in(const CallLists& lists, Arrays& arrays) {
  const auto view = [&arrays](const auto& values) {
    return View(arrays.in(values), static_cast<std::int64_t>(values.size()));
  };
  return {arrays.in(lists.ids), static_cast<std::int64_t>(lists.ids.size()), view(lists.begins),
          view(lists.lengths)};
}

template <class Arrays>
LogitsProcessing processing_in(const CallProcessing& call, std::int64_t rows, Arrays& arrays) {
  LogitsProcessing processing;
  processing.repetition_penalty = parameter_in(call.repetition_penalty, arrays);
  processing.frequency_penalty = parameter_in(call.frequency_penalty, arrays);
  processing.presence_penalty = parameter_in(call.presence_penalty, arrays);
  processing.prompt = lists_in(call.prompt, arrays);
  processing.output = lists_in(call.output, arrays);
  if (!call.prompt_mask.empty()) {
    processing.prompt_mask = {arrays.in(call.prompt_mask), rows, call.mask_stride};
  }
  if (!call.output_counts.empty()) {
    processing.output_counts = {arrays.in(call.output_counts), rows, call.counts_stride};
  }
  processing.bias_ids = lists_in(call.bias_ids, arrays);
  processing.bias_values = {arrays.in(call.bias_values),
                            static_cast<std::int64_t>(call.bias_values.size())};
  processing.min_tokens = parameter_in(call.min_tokens, arrays);
  processing.stop_ids = lists_in(call.stop_ids, arrays);
  processing.output_lengths = {arrays.in(call.output_lengths),
                               static_cast<std::int64_t>(call.output_lengths.size())};
  processing.bad_words = lists_in(call.bad_words, arrays);
  processing.bad_word_lengths = lists_in(call.bad_word_lengths, arrays);
  processing.allowed_ids = lists_in(call.allowed_ids, arrays);
  return processing;
}

}  // namespace fairdraw::suites
