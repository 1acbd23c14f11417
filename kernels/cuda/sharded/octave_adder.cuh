// Adds up the sums of tiles by octave, in the form in which a summary has them, with a block of
// kEndThreads threads.
//
// Most tiles have one of a few octaves, and 64-bit additions to the same word of shared memory have
// to wait for each other. So each warp first adds up its tiles with the same octave. Each sum is
// kept in two words of 64 bits, which add up the low and the high 32 bits of the tiles' sums, so
// that the sums of up to 4096 tiles fit.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "common/tile_weights.h"
#include "cuda/device/shared_sums.cuh"
#include "cuda/sharded/block_words.cuh"
#include "cuda/tiles/row_index.cuh"

namespace fairdraw::cuda {

using sharded::kOctaveSums;

/// Sums by octave in shared memory, each in two halves.
struct OctaveSumsMemory {
  std::uint64_t low[kOctaveSums];
  std::uint64_t high[kOctaveSums];
};

template <bool kFromProbs>
class OctaveAdder {
 public:
  using Memory = OctaveSumsMemory;

  __device__ explicit OctaveAdder(Memory& memory) : memory_(memory) {}

  /// Writes the sums of an index to a summary, at byte offset `at`; `largest` is the largest key of
  /// the index's tiles. Precondition: all threads have read the sums of the previous call.
  __device__ __forceinline__ void add(const RowIndex& index, std::int32_t largest, float scale,
                                      std::byte* part, std::size_t at) {
#pragma unroll 1
    for (int gap = thread(); gap < kOctaveSums; gap += kEndThreads) {
      memory_.low[gap] = 0;
      memory_.high[gap] = 0;
    }
    __syncthreads();
    const int upto = (index.tiles + kWarp - 1) / kWarp * kWarp;  // whole warps
#pragma unroll 1
    for (int tile = thread(); tile < upto; tile += kEndThreads) {
      const std::int32_t key = tile < index.tiles ? index.keys[tile] : kEmptyTileKey;
      const int gap = key == kEmptyTileKey ? kOctaveSums : gap_of(largest, key, scale);
      add_of_warp(gap, gap < kOctaveSums ? index.sums[tile] : 0);
    }
    __syncthreads();
#pragma unroll 1
    for (int gap = thread(); gap < kOctaveSums; gap += kEndThreads) {
      write_sum(part, at + sizeof(sharded::Sum128) * static_cast<unsigned>(gap),
                memory_.low[gap] + (static_cast<uint128_t>(memory_.high[gap]) << 32));
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

  __device__ __forceinline__ void add_of_warp(int gap, std::uint64_t sum) {
    constexpr int kPartBits = 27;  // number of bits of a part, such that the sum of 32 parts fits
                                   // into a 32-bit word
    unsigned left = __ballot_sync(kAllLanes, gap < kOctaveSums);
#pragma unroll 1
    while (left != 0) {
      const int of_first = __shfl_sync(kAllLanes, gap, __ffs(static_cast<int>(left)) - 1);
      const std::uint64_t mine = gap == of_first ? sum : 0;
      left &= ~__ballot_sync(kAllLanes, gap == of_first);
      uint128_t all = 0;
#pragma unroll
      for (int shift = 0; shift < 64; shift += kPartBits) {
        const auto part = static_cast<std::uint32_t>(mine >> shift) & ((1U << kPartBits) - 1);
        all += static_cast<uint128_t>(__reduce_add_sync(kAllLanes, part)) << shift;
      }
      if (lane_of_thread() != 0) continue;
      add_shared(&memory_.low[of_first], static_cast<std::uint64_t>(all) & 0xffffffffU);
      add_shared(&memory_.high[of_first], static_cast<std::uint64_t>(all >> 32));
    }
  }

  Memory& memory_;
};

}  // namespace fairdraw::cuda
