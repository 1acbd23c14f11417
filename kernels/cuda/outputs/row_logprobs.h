// Reports of log-probabilities, from rows that the row kernel has filtered (row_logprobs.cu).
#pragma once

#include "cuda/tiles/filtered_rows.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// True where a report needs the rows' order: keys of their tiles.
constexpr bool needs_order(const LogprobsResult& result) {
  return result.top_n > 0 || result.ranks.given();
}

/// What a launch reports, as the device sees it.
struct LogprobsTask {
  FilteredRows filtered;  ///< the call's own rows: their statuses, and the survivors that have
                          ///< values in processed modes. Without records in raw modes, where
                          ///< nothing is drawn: then statuses are the index's
  /// Of the values that a report is of: in raw modes of the rows as the caller gave them, sums at
  /// temperature 1; in processed modes the keys of what is allowed, and no sums. Read where
  /// needs_order, and for log-probabilities in raw modes.
  TileIndexResult index;
  LogprobsResult result;
  View<const std::int32_t> indices;  ///< as in SampleRequest
  std::int64_t outputs = 0;
  std::int32_t num_samples = 1;
  const std::int32_t* tokens = nullptr;  ///< [outputs, num_samples]; not read where neither values
                                         ///< nor ranks are wanted
  bool tokens_are_given = false;         ///< by the caller: they may lie outside the vocabulary
  RowStatus* statuses = nullptr;         ///< [outputs], optional
};

/// Enqueues what the result asks for.
cudaError_t report_logprobs(const LogprobsTask& task, Path path, cudaStream_t stream);

}  // namespace fairdraw::cuda
