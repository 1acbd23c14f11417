// Reports of log-probabilities for rows that the row kernel has filtered (row_logprobs.cu).
#pragma once

#include "cuda/rows/filtered_rows.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// Returns whether a report needs the order of rows, for which the keys of the tiles are read.
constexpr bool needs_order(const LogprobsResult& result) {
  return result.top_n > 0 || result.ranks.given();
}

/// Arguments of the report kernels, with pointers to device memory.
struct LogprobsTask {
  FilteredRows filtered;  ///< Rows of the call, with their statuses and, in processed modes, their
                          ///< survivors, which have the reported values. In raw modes without drawn
                          ///< tokens, there are no records, and the statuses come from the index.
  /// Index of the reported values. In raw modes, the index is that of the caller's rows, with sums
  /// at temperature 1; in processed modes, the index has the keys of the allowed values, without
  /// sums. The index is read if needs_order is true, and for log-probabilities in raw modes.
  TileIndexResult index;
  LogprobsResult result;
  View<const std::int32_t> indices;  ///< as in SampleRequest
  std::int64_t outputs = 0;
  std::int32_t num_samples = 1;
  const std::int32_t* tokens = nullptr;  ///< tokens [outputs, num_samples], which are read only if
                                         ///< values or ranks are requested
  bool tokens_are_given = false;  ///< whether the caller gave the tokens, which may then be outside
                                  ///< the vocabulary
  RowStatus* statuses = nullptr;  ///< [outputs], optional
};

/// Enqueues the kernels that write the requested reports.
cudaError_t report_logprobs(const LogprobsTask& task, Path path, cudaStream_t stream);

}  // namespace fairdraw::cuda
