// Interface of the kernel that computes the result of cuda::tile_index (index_tiles.cu).
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/device/tile_spread.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// Enqueues the kernel; request.rows.rows must be at least 1. All arguments must be in range,
/// except for values in device memory, which the kernel checks. Returns the CUDA error of the
/// launch.
cudaError_t index_tiles(const TileIndexRequest& request, const TileIndexResult& result,
                        const TileSpread& spread, cudaStream_t stream);

}  // namespace fairdraw::cuda
