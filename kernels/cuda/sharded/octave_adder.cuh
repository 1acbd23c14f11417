// Adds up the sums of tiles by octave, in the form in which a summary has them, with a block of
// kEndThreads threads.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "common/tile_weights.h"
#include "cuda/device/shared_sums.cuh"
#include "cuda/sharded/block_words.cuh"
#include "cuda/tiles/row_index.cuh"

namespace fairdraw::cuda {

using sharded::kOctaveSums;

template <bool kFromProbs>
class OctaveAdder {
 public:
  using Memory = uint128_t[kOctaveSums];

  /// The sums are in shared memory.
  __device__ explicit OctaveAdder(Memory& sums) : sums_(sums) {}

  /// Writes the sums of an index to a summary, at byte offset `at`; `largest` is the largest key of
  /// the index's tiles. Precondition: all threads have read the sums of the previous call.
  __device__ __forceinline__ void add(const RowIndex& index, std::int32_t largest, float scale,
                                      std::byte* part, std::size_t at) {
#pragma unroll 1
    for (int gap = thread(); gap < kOctaveSums; gap += kEndThreads) {
      sums_[gap] = 0;
    }
    __syncthreads();
    const int upto = (index.tiles + kWarp - 1) / kWarp * kWarp;  // whole warps
#pragma unroll 1
    for (int tile = thread(); tile < upto; tile += kEndThreads) {
      const std::int32_t key = tile < index.tiles ? index.keys[tile] : kEmptyTileKey;
      const int gap = key == kEmptyTileKey ? kOctaveSums : gap_of(largest, key, scale);
      add_of_warp(sums_, kOctaveSums, gap, gap < kOctaveSums ? index.sums[tile] : 0);
    }
    __syncthreads();
#pragma unroll 1
    for (int gap = thread(); gap < kOctaveSums; gap += kEndThreads) {
      write_sum(part, at + sizeof(sharded::Sum128) * static_cast<unsigned>(gap), sums_[gap]);
    }
  }

 private:
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }

  /// Returns the number of octaves by which a tile is below the largest tile, or kOctaveSums if the
  /// weight of the tile is negligible.
  __device__ static int gap_of(std::int32_t largest, std::int32_t key, float scale) {
    const TileWeights<kFromProbs> weights(from_order_key(largest), {scale, true});
    if (!weights.are_quick()) return slow_gap_of(largest, key, scale);
    return static_cast<int>(
        ::min(weights.octaves_below(from_order_key(key)), std::uint32_t{kOctaveSums}));
  }
  __device__ __noinline__ static int slow_gap_of(std::int32_t largest, std::int32_t key,
                                                 float scale) {
    const double gap = octaves_of(from_order_key(largest), scale).whole -
                       octaves_of(from_order_key(key), scale).whole;
    return gap <= static_cast<double>(kRowBits) ? static_cast<int>(gap) : kOctaveSums;
  }

  Memory& sums_;
};

}  // namespace fairdraw::cuda
