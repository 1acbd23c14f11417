// One draw by a whole block: which tile of a row holds the drawn position.
//
// A thread has neighbouring tiles, one of each where the block has as many threads; a prefix sum
// over the threads says whose they are. Two barriers. Where several tokens are drawn of a row, sums
// of groups of tiles serve all of them (tile_draw.cuh).
#pragma once

#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/tiles/tile_spread.h"

namespace fairdraw::cuda {

/// Called: it is used twice or more, and instructions come slowly the first time.
__device__ __noinline__ inline uint128_t inclusive_weights(uint128_t weight) {
  return inclusive_sum_of_warp(weight);
}

template <class T>
__device__ __forceinline__ T inclusive_of_warp(const T& mine) {
  return warp_inclusive_sum(mine);
}
__device__ __forceinline__ uint128_t inclusive_of_warp(const uint128_t& mine) {
  return inclusive_weights(mine);
}

/// A sum over the threads before this one, and over all.
template <class T>
struct BlockPrefix {
  T before, total;
};

/// By all threads of a block; one barrier. `slots` has one for each warp of the largest block, and
/// is not used again before another barrier.
template <class T>
__device__ __forceinline__ BlockPrefix<T> block_prefix(T mine, T* slots) {
  const T upto = inclusive_of_warp(mine);
  if (lane_of_thread() == kWarp - 1) slots[warp_of_thread()] = upto;
  __syncthreads();
  const T of_warp = lane_of_thread() < warps_of_block() ? slots[lane_of_thread()] : T{};
  const T upto_warp = inclusive_of_warp(of_warp);
  const T before = value_of_lane(upto_warp - of_warp, warp_of_thread());
  return {before + upto - mine, value_of_lane(upto_warp, kWarp - 1)};
}

/// A tile, the drawn position in it, and the weight of all tiles.
template <class Weight>
struct DrawnTile {
  int tile;
  Weight within, total;
};

/// In shared memory.
template <class Weight>
struct TileDrawMemory {
  Weight of_warp[kMaxThreadsOfBlock / kWarp];
  Weight within;
  int tile;
};

/// By all threads of a block, each with the same word; weight_of(tile): some tile's is not 0.
template <class Weight, class WeightOf>
__device__ __forceinline__ DrawnTile<Weight> draw_tile(int tiles, const WeightOf& weight_of,
                                                       std::uint64_t word,
                                                       TileDrawMemory<Weight>& memory) {
  const int threads = static_cast<int>(blockDim.x);
  const int share = (tiles + threads - 1) / threads;
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
