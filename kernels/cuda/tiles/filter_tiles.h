// Launch of the row kernel (filter_tiles.cu), which filters rows by min_p, top_k and top_p and
// draws one token per row.
//
// Private to kernels/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/tiles/filter_rows.h"
#include "cuda/tiles/tile_spread.h"

namespace fairdraw::cuda {

/// Enqueues the row kernel. rows.rows in [1, 2^22); spread.threads at least 256. Returns the
/// launch's CUDA error.
cudaError_t filter_tiles(const RowsTask& task, const TileSpread& spread, cudaStream_t stream);

/// Does the same for rows that can be read by vectors, in a call whose blocks each have an SM.
/// Called by filter_tiles.
cudaError_t filter_few_tiles(const RowsTask& task, const TileSpread& spread, cudaStream_t stream);

}  // namespace fairdraw::cuda
