// A batch of probabilities as one of the operations of fairdraw/sampling.h: which one it asks for,
// and the call, the same on every backend.
#pragma once

#include <string>

#include "fairdraw/cuda.h"
#include "fairdraw/sample.h"
#include "fairdraw/sampling.h"
#include "harness/contract/batch.h"

namespace fairdraw::harness {

/// Filters of one operation on probabilities. There is none that combines min_p with the others.
struct ProbsOperation {
  bool top_k = false, top_p = false, min_p = false;
  std::string refused;  ///< why no operation does what the batch asks for; empty: one does
};

/// A filter belongs to the operation where a row of the batch sets it to anything but its default,
/// so that the operation sees every bad value too. Reads the parameters, which lie in host memory.
ProbsOperation probs_operation(const fairdraw_batch& batch);

/// Calls it. The filters, seeds, offsets and indices are those of the request; of the results it
/// gives tokens and statuses.
template <class Execution>
Error sample_from_probs(const ProbsOperation& operation, const SampleRequest& request,
                        const SampleResult& result, const Execution& execution) {
  // The type of `execution` picks the backend: its namespace is searched for each call too.
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
