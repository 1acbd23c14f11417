// Runs a batch of probabilities as an operation of fairdraw/sampling.h: finds the operation that
// does what the batch requests, and calls it, in the same way on every backend.
#pragma once

#include <string>

#include "fairdraw/cuda.h"
#include "fairdraw/sample.h"
#include "fairdraw/sampling.h"
#include "harness/contract/batch.h"

namespace fairdraw::harness {

/// The set of filters of an operation on probabilities. The library has no operation that combines
/// min_p with other filters.
struct ProbsOperation {
  bool top_k = false, top_p = false, min_p = false;
  std::string refused;  ///< reason why no operation can do this; empty if one can
};

/// Finds the operation that a batch requests. The operation has each filter that some row sets to a
/// value other than the default, so that the operation also sees every bad value. Precondition: the
/// parameters are in host memory.
ProbsOperation probs_operation(const fairdraw_batch& batch);

/// Calls the operation with the filters, seeds, offsets and indices of the request. The operation
/// returns tokens and statuses, and no other results.
template <class Execution>
Error sample_from_probs(const ProbsOperation& operation, const SampleRequest& request,
                        const SampleResult& result, const Execution& execution) {
  // The type of `execution` selects the backend, because argument-dependent lookup searches the
  // namespace of that type.
  const RowsView& probs = request.logits;
  const DrawOptions options = {request.seed, request.offset, request.indices, request.num_samples};
  const DrawResult draws = {result.tokens, result.statuses};
  if (operation.min_p) {
    return min_p_sampling_from_probs(probs, request.min_p, options, draws, execution);
  }
  if (operation.top_k && operation.top_p) {
    return top_k_top_p_sampling_from_probs(probs, request.top_k, request.top_p,
                                           request.filter_order, options, draws, execution);
  }
  if (operation.top_k) {
    return top_k_sampling_from_probs(probs, request.top_k, options, draws, execution);
  }
  if (operation.top_p) {
    return top_p_sampling_from_probs(probs, request.top_p, options, draws, execution);
  }
  return sampling_from_probs(probs, options, draws, execution);
}

}  // namespace fairdraw::harness
