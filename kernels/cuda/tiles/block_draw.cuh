// Draws one of a row's tiles at random, in proportion to the tiles' weights, with all threads of a
// block.
//
// Each thread has a range of consecutive tiles, which is a single tile if the block has enough
// threads. A prefix sum over the threads finds the thread whose range contains the drawn position.
// The function has two barriers. Calls that draw several tokens per row use tile_draw.cuh instead,
// which sums groups of tiles once for all draws.
#pragma once

#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/tiles/tile_spread.h"

namespace fairdraw::cuda {

/// Drawn tile, with the drawn position inside the tile and the total weight of all tiles.
template <class Weight>
struct DrawnTile {
  int tile;
  Weight within, total;
};

/// Shared memory of draw_tile.
template <class Weight>
struct TileDrawMemory {
  Weight of_warp[kMaxThreadsOfBlock / kWarp];
  Weight within;
  int tile;
};

/// Draws a tile. All threads of a block must call this function with the same random word.
/// Precondition: at least one tile has a weight_of(tile) above 0.
template <class Weight, class WeightOf>
__device__ __forceinline__ DrawnTile<Weight> draw_tile(int tiles, const WeightOf& weight_of,
                                                       std::uint64_t word,
                                                       TileDrawMemory<Weight>& memory) {
  const int threads = static_cast<int>(blockDim.x);
  int share = 1;  // number of tiles per thread; for most rows 1, so that the loop below is skipped
#pragma unroll 1
  while (share * threads < tiles) ++share;
  const int begin = min(static_cast<int>(threadIdx.x) * share, tiles);
  const int end = min(begin + share, tiles);
  Weight mine = 0;
#pragma unroll 1
  for (int tile = begin; tile < end; ++tile) mine += weight_of(tile);
  const BlockPrefix<Weight> prefix = block_prefix(mine, memory.of_warp);
  const Weight position = multiply_high(word, prefix.total);
  if (prefix.before <= position && position - prefix.before < mine) {
    Weight within = position - prefix.before;
    int tile = begin;
#pragma unroll 1
    for (; tile + 1 < end; ++tile) {
      const Weight weight = weight_of(tile);
      if (within < weight) break;
      within -= weight;
    }
    memory.tile = tile;
    memory.within = within;
  }
  __syncthreads();
  return {memory.tile, memory.within, prefix.total};
}

}  // namespace fairdraw::cuda
