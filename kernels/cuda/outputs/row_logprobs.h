// Reports of log-probabilities, from rows that the row kernel has filtered (row_logprobs.cu).
#pragma once

#include "cuda/row_filter/filtered_rows.h"

namespace fairdraw::cuda {

/// What a launch reports, as the device sees it.
struct LogprobsTask {
  FilteredRows filtered;  ///< the call's own rows: their statuses, and the survivors that have
                          ///< values in processed modes
  /// The same rows, filtered to the largest top_n and little more: [rows]. In raw modes: of the
  /// rows as the caller gave them, `total` being the row's weight at temperature 1. In processed
  /// modes: written where `heads` lacked a row's survivors.
  const RowRecord* tops = nullptr;
  RowHeads heads;  ///< the survivors of `filtered` or of `tops`, whichever were noted
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
cudaError_t report_logprobs(const LogprobsTask& task, cudaStream_t stream);

}  // namespace fairdraw::cuda
