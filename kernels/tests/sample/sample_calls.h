// Whole calls of `sample` on host vectors, to be run on two backends and compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/sample.h"
#include "harness/inputs/call_arrays.h"

namespace fairdraw::suites {

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
struct CallResults {
  bool statuses = true, support_size = true, logprobs = true, mask = true, probs = true;
};
inline constexpr CallResults kEverything{};
inline constexpr CallResults kTokensAndStatuses{true, false, false, false, false};

/// What a call wrote, over a filling of its own: bytes that nobody may touch are compared too.
struct SampleOutputs {
  std::vector<std::int32_t> tokens;
  std::vector<RowStatus> statuses;
  std::vector<std::int32_t> support_size;
  std::vector<float> logprob, logprob_filtered;
  std::vector<std::uint32_t> mask;
  std::vector<float> probs;
  std::int64_t mask_stride = 0, probs_stride = 0;

  SampleOutputs(const SampleCall& call, const CallResults& wanted);
};

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
