// Reports of log-probabilities, from rows that the row kernel has filtered (row_logprobs.cu).
#pragma once

#include "cuda/tiles/filtered_rows.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// Returns whether a report needs the rows' order, which is in the keys of their tiles.
constexpr bool needs_order(const LogprobsResult& result) {
  return result.top_n > 0 || result.ranks.given();
}

/// Task of a launch, as the device sees it.
struct LogprobsTask {
  FilteredRows filtered;  ///< the call's own rows: their statuses and, in processed modes, the
                          ///< survivors, which have values. No records in raw modes that draw
                          ///< nothing: statuses are then the index's
  /// Index of the reported values: in raw modes, of the caller's rows, with sums at temperature 1;
  /// in processed modes, keys of the allowed values without sums. Read if needs_order, and for
  /// log-probabilities in raw modes.
  TileIndexResult index;
  LogprobsResult result;
  View<const std::int32_t> indices;  ///< as in SampleRequest
  std::int64_t outputs = 0;
  std::int32_t num_samples = 1;
  const std::int32_t* tokens = nullptr;  ///< [outputs, num_samples]; not read if neither values nor
                                         ///< ranks are wanted
  bool tokens_are_given = false;         ///< by the caller: they may be outside the vocabulary
  RowStatus* statuses = nullptr;         ///< [outputs], optional
};

/// Enqueues the reports that the result asks for.
cudaError_t report_logprobs(const LogprobsTask& task, Path path, cudaStream_t stream);

}  // namespace fairdraw::cuda
