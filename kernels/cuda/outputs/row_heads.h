// The first entries of rows, value descending and token id ascending among equals, for kernels that
// come after (row_heads.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/row_filter/filter_rows.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// Entries of rows in the workspace.
struct RowHeads {
  static constexpr int kMax = 256;  ///< entries of a row

  std::int32_t* counts = nullptr;  ///< [rows]; of rows that are not ok 0
  float* values = nullptr;         ///< [rows, kMax]
  std::int32_t* ids = nullptr;     ///< [rows, kMax]
};

/// What a launch looks for, as the device sees it: rows of logits.
struct HeadsTask {
  RowsView rows;
  View<const std::uint8_t> active;
  PerRequest<std::int32_t> n;  ///< entries of a row, 1 to RowHeads::kMax; of active rows
  TileIndexResult index;       ///< of the rows, at temperature 1, with statuses
  RowHeads heads;
  RowRecord* records = nullptr;  ///< [rows]: status, max, and the weight of all values
};

/// Enqueues the kernel; rows.rows in [1, 2^22). Returns the launch's error.
cudaError_t find_heads(const HeadsTask& task, cudaStream_t stream);

}  // namespace fairdraw::cuda
