// Interface of the kernel behind cuda::tile_index (index_tiles.cu).
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/tiles/tile_spread.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// Enqueues the kernel; request.rows.rows >= 1. All arguments are in range, except for values in
/// device memory. Returns the launch's error.
cudaError_t index_tiles(const TileIndexRequest& request, const TileIndexResult& result,
                        const TileSpread& spread, cudaStream_t stream);

}  // namespace fairdraw::cuda
