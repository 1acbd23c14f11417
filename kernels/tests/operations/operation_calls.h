// Calls of every operation of fairdraw/sampling.h on host vectors, by which tests compare two
// backends.
//
// An OwnedCall (sample_calls.h) holds the rows and parameters; its fields `allowed`, `active` and
// `purpose` are not used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "fairdraw/cuda.h"
#include "fairdraw/sampling.h"
#include "tests/sample/sample_calls.h"

namespace fairdraw::suites {

/// Fills an array with bytes that no result has.
template <class T>
void prefill(std::vector<T>& values, std::int64_t size) {
  values.resize(static_cast<std::size_t>(size));
  std::memset(values.data(), 0xca, values.size() * sizeof(T));
}

/// Returns random probabilities, most of them scaled into the range of `dtype`.
std::vector<float> random_probs_of(DType dtype, std::mt19937_64& random, std::int64_t vocab);

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

/// The results of an operation, which are filled beforehand with a pattern that no call writes.
struct OperationOutputs {
  std::vector<std::int32_t> tokens;
  std::vector<RowStatus> statuses;
  std::vector<float> matrix;
  std::vector<std::uint8_t> masked;  ///< masked logits in the form of OwnedCall::values; for a call
                                     ///< in place, a copy of these values
  std::int64_t matrix_stride = 0, masked_stride = 0;

  OperationOutputs(Operation operation, const OwnedCall& call);
  bool operator==(const OperationOutputs& other) const;  ///< compares every byte
};

/// Returns random rows of logits for the operation, or of probabilities that do not sum to 1.
OwnedCall random_operation_call(Operation operation, std::uint64_t number, std::int64_t rows,
                                std::int64_t vocab);

/// Runs on the CPU (Execution, HostArrays) or on the GPU (cuda::Execution, DeviceArrays).
template <class Arrays, class AnyExecution>
Error run_operation(Operation operation, const OwnedCall& call, OperationOutputs& outputs,
                    Arrays& arrays, const AnyExecution& execution) {
  // The type of the execution selects the backend, because name lookup also searches the namespace
  // of that type.
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
  const PerRequest<FilterOrder>& order = request.filter_order;
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

}  // namespace fairdraw::suites
