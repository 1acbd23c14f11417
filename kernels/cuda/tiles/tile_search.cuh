// Finds a threshold that a given number of keys reach, by counting the keys that reach each of
// several pivots at a time.
//
// Among the keys of the tiles (search_tile_keys), each warp counts all keys for a pivot of its own,
// so that a round takes one reduction of the warp, one barrier and a few loads, and divides the
// range of keys by nine. Among keys that the threads share out (PivotSearch), every thread counts
// its keys for each of three pivots. Two of these counts share a word, and a round divides the
// range by four. Both searches end when the count exceeds the requested number by only a few keys,
// or when the range is a single key, after at most 17 rounds.
#pragma once

#include <climits>
#include <cstdint>

#include "cuda/device/block_masses.cuh"
#include "cuda/tiles/row_index.cuh"

namespace fairdraw::cuda {

/// Number of tiles with an allowed token, with the smallest and the largest key of these tiles. The
/// member `smallest` is INT_MAX if there are no such tiles.
struct TileKeys {
  std::int32_t smallest, largest;
  int count;
};

/// Calls visit(key) for the keys of the tiles that this lane visits. In each warp, the lanes
/// together visit all tiles of the row.
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

/// Finds the number of keys of a row's tiles and the smallest and largest key; every warp computes
/// them by itself, without a barrier.
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

/// Numbers of keys that are at least each of three pivots, each at most 2^16 - 1 in a block.
struct PivotCounts {
  std::uint32_t first_two = 0;  ///< count for the first pivot and, in the upper half, count for the
                                ///< second pivot
  std::uint32_t third = 0;

  __device__ __forceinline__ void add(bool first, bool second, bool third_too) {
    first_two += (first ? 1U : 0U) + (second ? 0x10000U : 0U);
    third += third_too ? 1U : 0U;
  }
};

/// Calls visit(tile) for the tiles of this thread. The threads that finish the row together visit
/// all tiles.
template <class Visit>
__device__ __forceinline__ void for_each_tile_of_thread(const RowIndex& index, const Visit& visit) {
#pragma unroll 1
  for (int tile = static_cast<int>(threadIdx.x); tile < index.tiles; tile += kEndThreads) {
    visit(tile);
  }
}

/// Shared memory of the searches.
struct TileSearchMemory {
  alignas(16) PivotCounts counts[2][kEndWarps];
  alignas(16) std::uint32_t of_warp[2][kEndWarps];
};

/// Range of keys, from low to high, that contains the threshold. The member `reached` is the number
/// of keys >= low, which is at least k.
struct KeyRange {
  std::int32_t low, high;
  int reached;
};

class PivotSearch {
 public:
  __device__ explicit PivotSearch(TileSearchMemory& memory) : memory_(memory) {}

  /// Returns a key and the number of keys >= this key, which is at least k, and at most k + slack
  /// unless keys are tied. `first` is the smallest pivot of the first round, and must be in the
  /// range. All threads that finish the row must call this function, and count(pivots) must return
  /// the PivotCounts of this thread's keys.
  template <class Count>
  __device__ __forceinline__ KeyRange search(KeyRange range, std::int32_t first, int k, int slack,
                                             const Count& count) {
    std::int32_t from = first;
#pragma unroll 1
    while (range.low < range.high && range.reached - k > slack) {
      const auto distance =
          static_cast<std::uint32_t>(range.high) - static_cast<std::uint32_t>(from);
      const std::uint32_t step = distance / 4 + 1;
      std::int32_t pivot[3];
#pragma unroll
      for (std::uint32_t i = 0; i < 3; ++i) {
        // No pivot equals `low`, so the range shrinks in each round.
        const std::uint32_t steps = from > range.low ? i : i + 1;
        pivot[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(from) +
                                             min(steps * step, distance));
      }
      const PivotCounts all = sum(count(pivot));
      const auto of_first = static_cast<int>(all.first_two & 0xffffU);
      const auto of_second = static_cast<int>(all.first_two >> 16);
      const auto of_third = static_cast<int>(all.third);
      if (of_third >= k) {
        range = {pivot[2], range.high, of_third};
      } else if (of_second >= k) {
        range = {pivot[1], pivot[2] - 1, of_second};
      } else if (of_first >= k) {
        range = {pivot[0], pivot[1] - 1, of_first};
      } else {
        range.high = pivot[0] - 1;
      }
      from = range.low;
    }
    return range;
  }

  /// Returns the sums of the counts of all threads. The function has one barrier.
  __device__ __forceinline__ PivotCounts sum(const PivotCounts& mine) {
    turn_ ^= 1;
    PivotCounts* counts = memory_.counts[turn_];
    const std::uint32_t first_two = __reduce_add_sync(kAllLanes, mine.first_two);
    const std::uint32_t third = __reduce_add_sync(kAllLanes, mine.third);
    if (lane_of_thread() == 0) counts[warp_of_thread()] = {first_two, third};
    sync_end();
    PivotCounts all;
#pragma unroll
    for (int warp = 0; warp < kEndWarps; warp += 2) {
      const uint4 two = *reinterpret_cast<const uint4*>(counts + warp);
      all.first_two += two.x + two.z;
      all.third += two.y + two.w;
    }
    return all;
  }

 private:
  TileSearchMemory& memory_;
  int turn_ = 0;
};

/// Returns a key that at least k tiles reach, and at most k + slack unless keys are tied, with the
/// number of these tiles. Precondition: range.reached, the number of tiles that reach range.low, is
/// at least k. All threads that finish the row must call this function. Each warp counts all tiles
/// for a pivot of its own, so that a round divides the range by 9.
__device__ __forceinline__ KeyRange search_tile_keys(const RowIndex& index,
                                                     TileSearchMemory& memory, KeyRange range,
                                                     int k, int slack) {
  int turn = 0;
#pragma unroll 1
  while (range.low < range.high && range.reached - k > slack) {
    const auto distance =
        static_cast<std::uint32_t>(range.high) - static_cast<std::uint32_t>(range.low);
    const std::uint32_t step = distance / (kEndWarps + 1) + 1;
    const auto pivot = [&](int i) {
      return static_cast<std::int32_t>(static_cast<std::uint32_t>(range.low) +
                                       min(static_cast<std::uint32_t>(i + 1) * step, distance));
    };
    const std::int32_t own = pivot(warp_of_thread());
    unsigned mine = 0;
    for_each_key(index, [&](std::int32_t key) { mine += key >= own ? 1U : 0U; });
    mine = __reduce_add_sync(kAllLanes, mine);
    if (lane_of_thread() == 0) memory.of_warp[turn][warp_of_thread()] = mine;
    sync_end();
    int reaching = 0;  // number of pivots that at least k tiles reach
    int reached = range.reached;
#pragma unroll
    for (int warp = 0; warp < kEndWarps; warp += 4) {
      const uint4 four = *reinterpret_cast<const uint4*>(memory.of_warp[turn] + warp);
      for (const std::uint32_t count : {four.x, four.y, four.z, four.w}) {
        if (static_cast<int>(count) < k) continue;
        ++reaching;
        reached = static_cast<int>(count);
      }
    }
    const std::int32_t high = reaching < kEndWarps ? pivot(reaching) - 1 : range.high;
    range = {reaching > 0 ? pivot(reaching - 1) : range.low, high, reached};
    turn ^= 1;
  }
  return range;
}

}  // namespace fairdraw::cuda
