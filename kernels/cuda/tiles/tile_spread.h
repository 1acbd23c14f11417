// Distribution of a row's tiles over the blocks of the GPU. Results do not depend on this
// distribution.
#pragma once

#include <cuda_runtime_api.h>

#include "fairdraw/cuda.h"

namespace fairdraw::cuda {

/// Maximum number of blocks per row. Not every device can schedule clusters of more than 8 blocks.
inline constexpr int kMaxBlocksOfRow = 16;
inline constexpr int kMaxThreadsOfBlock = 512;
inline constexpr int kLeastThreadsOfBlock = 256;

struct TileSpread {
  int blocks = 1;  ///< blocks per row, 1, 2, 4, 8 or 16; more than one make a cluster (compute
                   ///< capability 9.0)
  int threads = kMaxThreadsOfBlock;  ///< a multiple of 32
  bool is_alone = false;  ///< whether each block has an SM of its own, so that its threads may have
                          ///< twice the registers
};

/// Chooses the blocks per row by device, number of rows and vocabulary. With Path::block, there is
/// one block per row.
cudaError_t best_spread(const RowsView& rows, Path path, TileSpread& spread);

}  // namespace fairdraw::cuda
