// Weights of whole rows of probabilities (weigh_rows.cu).
#pragma once

#include "cuda/row_filter/filter_rows.h"

namespace fairdraw::cuda {

/// Rows without filters, in two views: the second one's records come after the first one's.
struct WeighTask {
  RowsView rows[2];
  View<const std::uint8_t> active;  ///< of the second view's rows, optional
  RowRecord* records = nullptr;     ///< room for one a row
};

/// Enqueues the kernel; at least one row in all, less than 2^22 in each.
cudaError_t weigh_rows(const WeighTask& task, Path path, cudaStream_t stream);

}  // namespace fairdraw::cuda
