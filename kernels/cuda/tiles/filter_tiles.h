// Launch of the row kernel (filter_tiles.cu), which filters rows by min_p, top_k and top_p and
// draws one token per row.
//
// The launch is private to kernels/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/tiles/filter_rows.h"
#include "cuda/tiles/tile_spread.h"

namespace fairdraw::cuda {

/// Enqueues the row kernel; rows.rows must be in [1, 2^22), and spread.threads at least 256.
/// Returns the CUDA error of the launch.
cudaError_t filter_tiles(const RowsTask& task, const TileSpread& spread, cudaStream_t stream);

/// Enqueues the row kernel for rows that vectors can read, in a call in which each block has an SM
/// of its own. Only filter_tiles calls this function.
cudaError_t filter_few_tiles(const RowsTask& task, const TileSpread& spread, cudaStream_t stream);

/// Returns whether the device runs all blocks of filter_few_tiles at once. Clusters do not cross
/// groups of SMs (GPCs), so that 32 clusters of 4 blocks do not always fit on 132 SMs.
bool few_tiles_run_at_once(const RowsTask& task, const TileSpread& spread);

}  // namespace fairdraw::cuda
