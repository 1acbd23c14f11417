// A key that the k-th largest of the tiles' keys reaches, by pivots: one for each warp and round.
//
// Every warp counts the keys that reach its pivot, all tiles by itself, so that a round has one
// barrier and narrows the range to an eighth. It ends where few keys too many reach the bound: a
// bound need not be the k-th largest key, only not above it. Rows of tied keys end when the range
// is a single key: after eleven rounds at most.
#pragma once

#include <climits>
#include <cstdint>

#include "cuda/tiles/block_masses.cuh"
#include "cuda/tiles/row_index.cuh"

namespace fairdraw::cuda {

/// The keys of the tiles with an allowed token: how many, smallest and largest. smallest is INT_MAX
/// where there is none.
struct TileKeys {
  std::int32_t smallest, largest;
  int count;
};

/// Calls visit(key) for this lane's tiles: all of them by each warp.
template <class Visit>
__device__ __forceinline__ void for_each_key(const RowIndex& index, const Visit& visit) {
  constexpr int kAtOnce = 8;
#pragma unroll 1
  for (int first = 0; first < index.tiles; first += kAtOnce * kWarp) {
    std::int32_t key[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int tile = first + i * kWarp + lane_of_thread();
      key[i] = tile < index.tiles ? index.keys[tile] : kEmptyTileKey;
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) visit(key[i]);
  }
}

/// Each warp for itself, without a barrier.
__device__ __forceinline__ TileKeys find_tile_keys(const RowIndex& index) {
  TileKeys keys{INT_MAX, kEmptyTileKey, 0};
  for_each_key(index, [&](std::int32_t key) {
    keys.largest = max(keys.largest, key);
    keys.smallest = min(keys.smallest, key > kEmptyTileKey ? key : INT_MAX);
    keys.count += key > kEmptyTileKey ? 1 : 0;
  });
  return {__reduce_min_sync(kAllLanes, keys.smallest), __reduce_max_sync(kAllLanes, keys.largest),
          __reduce_add_sync(kAllLanes, keys.count)};
}

/// Shared memory of the search.
struct TileSearchMemory {
  alignas(16) std::int32_t counts[2][kEndWarps];
};

/// A key that at least k of the tiles' keys reach, and at most k + slack if they are not tied.
/// 1 <= k <= keys.count.
__device__ __forceinline__ std::int32_t search_tiles(TileSearchMemory& memory,
                                                     const RowIndex& index, const TileKeys& keys,
                                                     int k, int slack) {
  std::int32_t low = keys.smallest;
  std::int32_t high = keys.largest;
  int reached = keys.count;
  int turn = 0;
#pragma unroll 1
  while (low < high && reached - k > slack) {
    const auto width = static_cast<std::uint32_t>(high) - static_cast<std::uint32_t>(low);
    const std::uint32_t step = width / kEndWarps + 1;
    const auto pivot_of = [&](int warp) {
      const auto distance = static_cast<std::uint32_t>(warp + 1) * step;  // the last is the width
      return static_cast<std::int32_t>(static_cast<std::uint32_t>(low) + min(distance, width));
    };
    const std::int32_t pivot = pivot_of(warp_of_thread());
    int count = 0;
    for_each_key(index, [&](std::int32_t key) { count += key >= pivot ? 1 : 0; });
    count = __reduce_add_sync(kAllLanes, count);
    if (lane_of_thread() == 0) memory.counts[turn][warp_of_thread()] = count;
    sync_end();
    int reaching = 0;  // pivots that k keys reach: the first ones
    int of_last = reached;
#pragma unroll
    for (int warp = 0; warp < kEndWarps; ++warp) {
      const int of_warp = memory.counts[turn][warp];
      if (of_warp >= k) {
        ++reaching;
        of_last = of_warp;
      }
    }
    if (reaching < kEndWarps) high = pivot_of(reaching) - 1;
    if (reaching > 0) low = pivot_of(reaching - 1);
    reached = of_last;
    turn ^= 1;
  }
  return low;
}

}  // namespace fairdraw::cuda
