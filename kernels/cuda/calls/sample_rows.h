// What `sample` and the operations of fairdraw/sampling.h share on the GPU (sample.cpp).
#pragma once

#include <cstdint>

#include "cuda/row_filter/filtered_rows.h"
#include "fairdraw/cuda.h"

namespace fairdraw::cuda {

/// Largest batch: with 512 tiles a row, the most that kMaxVocab has, write_rows' grid is still
/// below 2^31 blocks.
inline constexpr std::int64_t kMaxRows = (std::int64_t{1} << 22) - 1;

struct SampleOptions {
  const char* rows_name = "logits";  ///< what errors call `request.logits`
  bool from_probs = false;
  bool top_k_1_keeps_ties = false;  ///< the mask and renorm operations
  bool wants_tokens = true;         ///< else the result has masks or probabilities only
  bool tokens_are_given = false;    ///< reports are of given_tokens; wants_tokens is false
  View<const std::int32_t> given_tokens;
  bool reports_statuses = false;  ///< of a call without tokens: row_logprobs writes them
};

Error sample_rows(const SampleRequest& request, const SampleResult& result,
                  const Execution& execution, const SampleOptions& options);

/// No error, or one for a batch that is too large. `name` as in rows_name.
Error check_batch(const RowsView& rows, const char* name);

inline cudaStream_t stream_of(const Execution& execution) {
  return static_cast<cudaStream_t>(execution.stream);
}

}  // namespace fairdraw::cuda
