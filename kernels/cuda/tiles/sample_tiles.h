// Interface of the kernel that draws tokens by tiles, without top_k and top_p (sample_tiles.cu).
//
// Private to kernels/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/tiles/filter_rows.h"
#include "cuda/tiles/tile_spread.h"

namespace fairdraw::cuda {

/// Whether no row of a task has top_k or top_p, as far as the host can see, and nobody asks for
/// keys.
bool sample_tiles_takes(const RowsTask& task);

/// Enqueues the kernel, for a task that it takes. rows.rows in [1, 2^22). Returns the launch's
/// error.
cudaError_t sample_tiles(const RowsTask& task, const TileSpread& spread, cudaStream_t stream);

}  // namespace fairdraw::cuda
