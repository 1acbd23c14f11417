// Operations of fairdraw/sampling.h, expressed as calls that the batch engines of the CPU and the
// GPU run.
#pragma once

#include "fairdraw/sample.h"
#include "fairdraw/sampling.h"

namespace fairdraw {

/// Operation of fairdraw/sampling.h with its arguments, in the form that every backend runs.
struct OperationCall {
  SampleRequest request;  ///< has probabilities instead of logits if from_probs is set
  SampleResult result;
  bool from_probs = false;
  bool top_k_1_keeps_ties = false;  ///< whether top_k 1 keeps ties, as in the renorm operations
  bool wants_tokens = true;         ///< whether tokens are drawn; otherwise the operation writes
                                    ///< result.probs

  /// Returns the name of `request.logits` in error messages.
  const char* rows_name() const { return from_probs ? "probs" : "logits"; }
};

/// Returns the call that draws from rows of logits without filters.
inline OperationCall draw_call(const RowsView& rows, const DrawOptions& options,
                               const DrawResult& draws) {
  OperationCall call;
  call.request.logits = rows;
  call.request.seed = options.seed;
  call.request.offset = options.offset;
  call.request.indices = options.indices;
  call.request.num_samples = options.num_samples;
  call.result.tokens = draws.tokens;
  call.result.statuses = draws.statuses;
  return call;
}

inline OperationCall draw_from_probs_call(const RowsView& probs, const DrawOptions& options,
                                          const DrawResult& draws) {
  OperationCall call = draw_call(probs, options, draws);
  call.from_probs = true;
  return call;
}

/// Returns the call that writes the softmax of each row without filters.
inline OperationCall normalise_call(const RowsView& rows, const FloatRows& normalised,
                                    View<RowStatus> statuses) {
  OperationCall call;
  call.request.logits = rows;
  call.result.probs = normalised;
  call.result.statuses = statuses;
  call.wants_tokens = false;
  return call;
}

inline OperationCall renormalise_probs_call(const RowsView& probs, const FloatRows& renormalised,
                                            View<RowStatus> statuses) {
  OperationCall call = normalise_call(probs, renormalised, statuses);
  call.from_probs = true;
  return call;
}

Error run_operation(const OperationCall& call, const Execution& execution);

namespace cuda {
struct Execution;
Error run_operation(const OperationCall& call, const Execution& execution);
}  // namespace cuda

}  // namespace fairdraw
