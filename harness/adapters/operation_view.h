// Translates an operation of the contract to the functions of fairdraw/sampling.h: makes views of
// the call's own arrays in host or device memory, and makes the call, which is the same on every
// backend. This code reads scalar parameters, so they must be in host memory.
#pragma once

#include "fairdraw/cuda.h"
#include "fairdraw/sample.h"
#include "fairdraw/sampling.h"
#include "harness/adapters/sample_view.h"

namespace fairdraw::harness {

/// Declares the operations of the contract that the library has. The log-softmax of a row is the
/// report of raw log-probabilities for all of its tokens. The library has no operation that masks
/// by min_p.
inline void declare_operations(SamplerDescription& description) {
  description.softmax = description.log_softmax = true;
  description.top_k_mask_logits = true;
  description.top_k_renorm_probs = description.top_p_renorm_probs = true;
  description.masks_in_place = true;
}

inline RowsView rows_of(const fairdraw_operation& call) {
  return {call.values, static_cast<DType>(call.dtype), call.rows, call.vocab, call.row_stride};
}

inline FloatRows float_result_of(const fairdraw_operation& call) {
  return {static_cast<float*>(call.result), call.rows, call.result_stride};
}

/// Returns the parameter of the call's operation. Precondition: the call has this parameter.
template <class T>
PerRequest<T> parameter_of(const fairdraw_operation& call, const T* values) {
  if (call.parameter_is_scalar != 0) return values[0];
  return {values, call.rows};
}

/// Returns a request whose report of raw log-probabilities is the log-softmax. The request also
/// draws a token per row, into `tokens` [rows].
inline SampleRequest logarithms_request_of(const fairdraw_operation& call) {
  SampleRequest request;
  request.logits = rows_of(call);
  return request;
}
inline SampleResult logarithms_result_of(const fairdraw_operation& call, std::int32_t* tokens,
                                         View<RowStatus> statuses) {
  SampleResult result;
  result.tokens = {tokens, call.rows};
  result.statuses = statuses;
  result.logprobs.mode = LogprobsMode::raw_logprobs;
  result.logprobs.all = float_result_of(call);
  return result;
}

/// Runs the operation, except log-softmax, which is no row operation.
template <class Execution>
Error run_row_operation(const fairdraw_operation& call, View<RowStatus> statuses,
                        const Execution& execution) {
  // The type of `execution` selects the backend, because argument-dependent lookup searches the
  // namespace of that type.
  switch (call.kind) {
    case FAIRDRAW_OPERATION_SOFTMAX:
      return softmax(rows_of(call), parameter_of(call, call.temperature), float_result_of(call),
                     statuses, execution);
    case FAIRDRAW_OPERATION_TOP_K_MASK_LOGITS:
      return top_k_mask_logits(rows_of(call), parameter_of(call, call.top_k), call.result,
                               call.result_stride, statuses, execution);
    case FAIRDRAW_OPERATION_TOP_K_RENORM_PROBS:
      return top_k_renorm_probs(rows_of(call), parameter_of(call, call.top_k),
                                float_result_of(call), statuses, execution);
    case FAIRDRAW_OPERATION_TOP_P_RENORM_PROBS:
      return top_p_renorm_probs(rows_of(call), parameter_of(call, call.top_p),
                                float_result_of(call), statuses, execution);
    default:
      return {ErrorCode::unsupported, "no operation of fairdraw/sampling.h is this kind"};
  }
}

}  // namespace fairdraw::harness
