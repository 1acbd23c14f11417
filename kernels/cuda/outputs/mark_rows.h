// Interface of the kernel that gives marked rows the token that wins their race (mark_rows.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/device/tile_spread.h"
#include "cuda/rows/filtered_rows.h"
#include "fairdraw/tile_index.h"
#include "fairdraw/watermark.h"

namespace fairdraw::cuda {

/// Rows whose tokens the row kernel has drawn, and their marks.
struct MarkRowsTask {
  FilteredRows filtered;
  TileRows<const std::int32_t> keys;  ///< keys of the largest value of each tile, in rows whose
                                      ///< status is ok
  TokenLists output;                  ///< ids that each row's request has generated
  Watermark watermark;                ///< marks by a race
  PerRequest<std::uint64_t> seed = std::uint64_t{0};
  PerRequest<std::uint64_t> offset = std::uint64_t{0};
  Purpose purpose = Purpose::draw;
  RowRecord* records = nullptr;  ///< [rows]; the records of `filtered`, of which this kernel writes
                                 ///< the statuses of rows that fail
  std::int32_t* tokens = nullptr;  ///< [rows]
  RowStatus* statuses = nullptr;   ///< [rows], optional
};

/// Enqueues the kernel; there must be at least one row. Returns the CUDA error of the launch.
cudaError_t mark_rows(const MarkRowsTask& task, const TileSpread& spread, cudaStream_t stream);

}  // namespace fairdraw::cuda
