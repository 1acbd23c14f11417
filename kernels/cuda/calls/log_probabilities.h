// Host side of reports of log-probabilities: what `sample` and log_probabilities share.
#pragma once

#include "cuda/calls/workspace.h"
#include "cuda/outputs/row_logprobs.h"
#include "cuda/row_filter/filter_rows.h"

namespace fairdraw::cuda {

/// The filters that leave the largest top_n tokens of a row, or two where that is fewer: one would
/// be greedy, and leave no sum.
void keep_largest(std::int32_t top_n, RowsTask& task);

/// Enqueues the reports of a call whose rows are filtered by `rows`, and whose tokens are drawn.
/// `report`: all but `tops`. One record of rows.records may already be what raw modes need:
/// rows_are_raw.
Error enqueue_reports(const RowsTask& rows, bool rows_are_raw, LogprobsTask report,
                      const Workspace& workspace, Path path, cudaStream_t stream);

}  // namespace fairdraw::cuda
