// Calls of every operation of fairdraw/sampling.h on host vectors, to be run on two backends.
//
// A call of `sample` (sample_calls.h) holds the rows and parameters; `allowed`, `active` and
// `purpose` are not used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/cuda.h"
#include "fairdraw/sampling.h"
#include "tests/sample/sample_calls.h"

namespace fairdraw::suites {

enum class Operation {
  softmax,
  sampling_from_logits,
  sampling_from_probs,
  top_k_sampling_from_probs,
  top_p_sampling_from_probs,
  min_p_sampling_from_probs,
  top_k_top_p_sampling_from_logits,
  top_k_top_p_sampling_from_probs,
  top_k_mask_logits,
  top_k_mask_logits_in_place,
  top_k_renorm_probs,
  top_p_renorm_probs,
};
inline constexpr int kOperations = 12;

const char* to_string(Operation operation);

/// What an operation writes, pre-filled with a sentinel pattern.
struct OperationOutputs {
  std::vector<std::int32_t> tokens;
  std::vector<RowStatus> statuses;
  std::vector<float> matrix;
  std::vector<std::uint8_t> masked;  ///< as OwnedCall::values; in place: a copy of them
  std::int64_t matrix_stride = 0, masked_stride = 0;

  OperationOutputs(Operation operation, const OwnedCall& call);
  bool operator==(const OperationOutputs& other) const;  ///< every byte
};

/// Random rows of logits, or of probabilities that do not sum to 1, for the operation.
OwnedCall random_operation_call(Operation operation, std::uint64_t number, std::int64_t rows,
                                std::int64_t vocab);

/// Runs on the CPU (Execution, HostArrays) or on the GPU (cuda::Execution, DeviceArrays).
template <class Arrays, class AnyExecution>
Error run_operation(Operation operation, const OwnedCall& call, OperationOutputs& outputs,
                    Arrays& arrays, const AnyExecution& execution) {
  // The execution's type picks the backend: its namespace is searched for each call too.
  const SampleRequest request = request_in(call, arrays);
  const RowsView& rows = request.logits;
  const DrawOptions options{request.seed, request.offset, request.indices, request.num_samples};
  const View<RowStatus> statuses{arrays.out(outputs.statuses),
                                 static_cast<std::int64_t>(outputs.statuses.size())};
  const DrawResult result{
      {arrays.out(outputs.tokens), static_cast<std::int64_t>(outputs.tokens.size())}, statuses};
  const FloatRows matrix{arrays.out(outputs.matrix), call.rows, outputs.matrix_stride};
  std::uint8_t* masked = arrays.out(outputs.masked);
  if (masked != nullptr) masked += call.shift;
  const FilterOrder order = call.filter_order;
  arrays.ready();
  switch (operation) {
    case Operation::softmax:
      return softmax(rows, request.temperature, matrix, statuses, execution);
    case Operation::sampling_from_logits:
      return sampling_from_logits(rows, options, result, execution);
    case Operation::sampling_from_probs:
      return sampling_from_probs(rows, options, result, execution);
    case Operation::top_k_sampling_from_probs:
      return top_k_sampling_from_probs(rows, request.top_k, options, result, execution);
    case Operation::top_p_sampling_from_probs:
      return top_p_sampling_from_probs(rows, request.top_p, options, result, execution);
    case Operation::min_p_sampling_from_probs:
      return min_p_sampling_from_probs(rows, request.min_p, options, result, execution);
    case Operation::top_k_top_p_sampling_from_logits:
      return top_k_top_p_sampling_from_logits(rows, request.top_k, request.top_p, order, options,
                                              result, execution);
    case Operation::top_k_top_p_sampling_from_probs:
      return top_k_top_p_sampling_from_probs(rows, request.top_k, request.top_p, order, options,
                                             result, execution);
    case Operation::top_k_mask_logits:
      return top_k_mask_logits(rows, request.top_k, masked, outputs.masked_stride, statuses,
                               execution);
    case Operation::top_k_mask_logits_in_place: {
      RowsView same = rows;
      same.data = masked;
      return top_k_mask_logits(same, request.top_k, masked, outputs.masked_stride, statuses,
                               execution);
    }
    case Operation::top_k_renorm_probs:
      return top_k_renorm_probs(rows, request.top_k, matrix, statuses, execution);
    case Operation::top_p_renorm_probs:
      return top_p_renorm_probs(rows, request.top_p, matrix, statuses, execution);
  }
  return {ErrorCode::unsupported, "no such operation"};
}

/// A batch of chains: rows of both sides, each in its own dtype and with its own stride.
struct ChainCall {
  std::int64_t batch = 0, num_draft_tokens = 0;
  OwnedCall draft, target;  ///< rows, and the target's seed and offset, one a request or scalar
  std::vector<std::int32_t> draft_tokens;
};

struct ChainOutputs {
  std::vector<std::int32_t> tokens, accepted, emitted;
  std::vector<RowStatus> statuses;

  explicit ChainOutputs(const ChainCall& call, bool optional_results = true);
};

/// Chains of 0 to 5 tokens with drafts equal to the target, near it and foreign to it.
ChainCall random_chain_call(std::uint64_t number, std::int64_t vocab);

/// Chains over few tokens of subnormal probabilities in a large vocabulary: there bounds of a total
/// that are a vocabulary apart leave tests of drafts open.
ChainCall open_chain_call(std::uint64_t number, std::int64_t vocab);

template <class Arrays, class AnyExecution>
Error run_chain(const ChainCall& call, ChainOutputs& outputs, Arrays& arrays,
                const AnyExecution& execution) {
  const auto view = [](auto* data, const auto& values) {
    return View(data, static_cast<std::int64_t>(values.size()));
  };
  ChainSpeculativeRequest request;
  if (call.draft.rows > 0) request.draft_probs = request_in(call.draft, arrays).logits;
  const SampleRequest target = request_in(call.target, arrays);
  request.target_probs = target.logits;
  request.draft_tokens = view(arrays.in(call.draft_tokens), call.draft_tokens);
  request.batch = call.batch;
  request.num_draft_tokens = call.num_draft_tokens;
  request.seed = target.seed;
  request.offset = target.offset;
  ChainSpeculativeResult result;
  result.tokens = view(arrays.out(outputs.tokens), outputs.tokens);
  result.accepted = view(arrays.out(outputs.accepted), outputs.accepted);
  result.emitted = view(arrays.out(outputs.emitted), outputs.emitted);
  result.statuses = view(arrays.out(outputs.statuses), outputs.statuses);
  arrays.ready();
  return chain_speculative_sampling(request, result, execution);
}

}  // namespace fairdraw::suites
