// Whole calls of `sample` on host vectors, to be run on two backends and compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/sample.h"

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

/// One call. Vectors that are empty are not given.
struct SampleCall {
  DType dtype = DType::float32;
  std::int64_t rows = 0, vocab = 0, row_stride = 0;
  std::size_t shift = 0;             ///< bytes before the first value
  std::vector<std::uint8_t> values;  ///< in the dtype, from byte `shift` on
  CallParameter<float> temperature{1.0F, {}}, top_p{1.0F, {}}, min_p{0.0F, {}};
  CallParameter<std::int32_t> top_k{0, {}};
  CallParameter<std::uint64_t> seed, offset;
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
  Purpose purpose = Purpose::draw;
  std::vector<std::uint32_t> allowed;
  std::int64_t allowed_stride = 0;
  CallProcessing processing;
  std::vector<std::uint8_t> active;
  std::vector<std::int32_t> indices;
  std::int32_t num_samples = 1;

  std::int64_t outputs() const {
    return indices.empty() ? rows : static_cast<std::int64_t>(indices.size());
  }
  std::int64_t row_of(std::int64_t output) const {
    return indices.empty() ? output : indices[static_cast<std::size_t>(output)];
  }
  /// Makes room for the rows; bytes between them are a NaN in every dtype.
  void allocate(DType type, std::int64_t row_count, std::int64_t vocabulary, std::int64_t stride,
                std::size_t shift_bytes);
  /// Puts a row in its place, rounded to the dtype.
  void set_row(std::int64_t row, const float* logits);
};

/// Which results a call asks for. Fewer results take other ways through the kernels.
struct Wanted {
  bool statuses = true, support_size = true, logprobs = true, mask = true, probs = true;
};
inline constexpr Wanted kEverything{};
inline constexpr Wanted kTokensAndStatuses{true, false, false, false, false};

/// What a call wrote, over a filling of its own: bytes that nobody may touch are compared too.
struct SampleOutputs {
  std::vector<std::int32_t> tokens;
  std::vector<RowStatus> statuses;
  std::vector<std::int32_t> support_size;
  std::vector<float> logprob, logprob_filtered;
  std::vector<std::uint32_t> mask;
  std::vector<float> probs;
  std::int64_t mask_stride = 0, probs_stride = 0;

  SampleOutputs(const SampleCall& call, const Wanted& wanted);
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

/// The request over arrays in host or device memory (DeviceArrays, HostArrays).
template <class Arrays>
SampleRequest request_in(const SampleCall& call, Arrays& arrays) {
  SampleRequest request;
  const std::uint8_t* values = arrays.in(call.values);
  request.logits = {values + call.shift, call.dtype, call.rows, call.vocab, call.row_stride};
  request.temperature = parameter_in(call.temperature, arrays);
  request.top_k = parameter_in(call.top_k, arrays);
  request.top_p = parameter_in(call.top_p, arrays);
  request.min_p = parameter_in(call.min_p, arrays);
  request.seed = parameter_in(call.seed, arrays);
  request.offset = parameter_in(call.offset, arrays);
  request.tie_rule = call.tie_rule;
  request.filter_order = call.filter_order;
  if (!call.allowed.empty()) {
    request.allowed = {arrays.in(call.allowed), call.rows, call.allowed_stride};
  }
  request.processing = processing_in(call.processing, call.rows, arrays);
  request.active = {arrays.in(call.active), static_cast<std::int64_t>(call.active.size())};
  request.indices = {arrays.in(call.indices), static_cast<std::int64_t>(call.indices.size())};
  request.num_samples = call.num_samples;
  request.purpose = call.purpose;
  return request;
}

template <class Arrays>
SampleResult result_in(const SampleCall& call, SampleOutputs& outputs, Arrays& arrays) {
  SampleResult result;
  const auto view = [&arrays](auto& values) {
    return View(arrays.out(values), static_cast<std::int64_t>(values.size()));
  };
  result.tokens = view(outputs.tokens);
  result.statuses = view(outputs.statuses);
  result.support_size = view(outputs.support_size);
  result.logprob = view(outputs.logprob);
  result.logprob_filtered = view(outputs.logprob_filtered);
  if (!outputs.mask.empty()) {
    result.mask = {arrays.out(outputs.mask), call.rows, outputs.mask_stride};
  }
  if (!outputs.probs.empty()) {
    result.probs = {arrays.out(outputs.probs), call.rows, outputs.probs_stride};
  }
  return result;
}

/// Rows of `vocab` values and everything else of a call, hard on purpose, from a number:
/// parameters of their own in and out of range, NaN, padding, masks, `indices` out of range,
/// several samples, strides, odd addresses. The dtype is number % 3.
SampleCall random_sample_call(std::uint64_t number, std::int64_t rows, std::int64_t vocab);

/// Logits processing for a call, from a number: every feature in about half of the calls, with
/// lists of all lengths, ids that repeat, placeholders; and, in some rows, each fault that a row
/// can have.
CallProcessing random_processing(std::uint64_t number, const SampleCall& call);

/// The parameters of a row, to run it again.
std::string describe_row(const SampleCall& call, std::int64_t row);

struct Difference {
  std::int64_t row;  ///< of the call; -1 where an index is out of range
  std::string what;
};

/// Where `got` is not `expected`: every byte, but log-probabilities within their bound. Sorted by
/// kind of result, at most `most` of them. Results that only one of the two has are left out.
std::vector<Difference> differences(const SampleCall& call, const SampleOutputs& expected,
                                    const SampleOutputs& got, std::size_t most);

}  // namespace fairdraw::suites
