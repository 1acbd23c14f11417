// Distribution of a row's tiles over the blocks of the GPU. The results of a call do not depend on
// this distribution.
#pragma once

#include <cuda_runtime_api.h>

#include "fairdraw/cuda.h"

namespace fairdraw::cuda {

/// Maximum number of blocks per row. Not every device can schedule clusters of more than 8 blocks.
inline constexpr int kMaxBlocksOfRow = 16;
inline constexpr int kMaxThreadsOfBlock = 512;
inline constexpr int kMinThreadsOfBlock = 256;

struct TileSpread {
  int blocks = 1;  ///< number of blocks per row: 1, 2, 4, 8 or 16; more than one block form a
                   ///< cluster (compute capability 9.0)
  int threads = kMaxThreadsOfBlock;  ///< a multiple of 32
  bool is_alone = false;  ///< whether each block has an SM of its own, so that its threads may use
                          ///< twice as many registers
};

/// Chooses the number of blocks per row from the device, the number of rows and the vocabulary.
/// With Path::block, each row has one block.
cudaError_t best_spread(const RowsView& rows, Path path, TileSpread& spread);

}  // namespace fairdraw::cuda
