// How the tiles of a row are spread over the GPU. Results do not depend on it.
#pragma once

#include <cuda_runtime_api.h>

#include "fairdraw/cuda.h"

namespace fairdraw::cuda {

/// Most blocks of a row. More than 8 make a cluster of a size that not every device schedules.
inline constexpr int kMaxBlocksOfRow = 16;
inline constexpr int kMaxThreadsOfBlock = 512;
inline constexpr int kLeastThreadsOfBlock = 256;

struct TileSpread {
  int blocks = 1;  ///< 1, 2, 4, 8 or 16; above 1 they make a cluster (compute capability 9.0)
  int threads = kMaxThreadsOfBlock;  ///< a multiple of 32
};

/// By the device, the number of rows and the vocabulary. Path::block: one block a row.
cudaError_t best_spread(const RowsView& rows, Path path, TileSpread& spread);

}  // namespace fairdraw::cuda
