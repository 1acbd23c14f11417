// First entries of a row in order (value descending, token id ascending among equals), found by one
// block of kEndThreads through the largest values of the row's tiles.
//
// n values of the row are at least the n-th largest tile maximum, so this maximum is a lower bound
// of the n-th largest value. Only the tiles whose maximum is at least this bound are read: n tiles,
// or more with ties. Their values at or above the bound are listed, and sorted by counting. If the
// list overflows (ties, or fewer than n tiles), a search over the row itself, by levels of bins
// (tiles/key_selection.cuh), finds the cut between the n-th entry and the next, and the entries
// before the cut are listed.
//
// Determinism: threads append to the list in any order, but the list is then sorted by value and
// id.
#pragma once

#include <climits>
#include <cstdint>

#include "common/float_order.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/tiles/filtered_row.cuh"
#include "cuda/tiles/key_selection.cuh"
#include "cuda/tiles/row_index.cuh"
#include "cuda/tiles/tile_search.cuh"

namespace fairdraw::cuda {

/// Row with the keys of its tiles, which are computed from the tokens that FilteredRow::is_allowed.
struct KeyedRow {
  const FilteredRow& row;
  const std::int32_t* keys;
  int tiles;

  /// Calls visit(token, x) for the allowed tokens whose keys are at least `lowest`, spread over the
  /// block's warps. Only tiles whose largest key is at least `lowest` are read.
  template <class Visit>
  __device__ void visit_from(std::int32_t lowest, const Visit& visit) const {
    visit_share(lowest, warp_of_thread(), warps_of_block(), visit);
  }
  /// Does the same as visit_from over `warps` warps, of which this is number `warp`.
  template <class Visit>
  __device__ void visit_share(std::int32_t lowest, int warp, int warps, const Visit& visit) const {
    const float least = from_order_key(lowest);
#pragma unroll 1
    for (int first = warp; first < tiles; first += warps * kWarp) {
      const int mine = first + lane_of_thread() * warps;
      unsigned reach = __ballot_sync(kAllLanes, mine < tiles && keys[mine] >= lowest);
#pragma unroll 1
      for (; reach != 0; reach &= reach - 1) {
        const int tile = first + (__ffs(static_cast<int>(reach)) - 1) * warps;
        const std::int64_t token = std::int64_t{tile} * kTileSize + lane_of_thread();
        float x[kLaneValues];
        row.read(token, kWarp, x);
#pragma unroll
        for (int i = 0; i < kLaneValues; ++i) {
          if (x[i] >= least) visit(token + i * kWarp, x[i]);
        }
      }
    }
  }
};

/// The first entries of a row, in order.
struct HeadEntries {
  static constexpr int kMax = 512;

  float value[kMax];
  std::int32_t id[kMax];
};

class HeadSearch {
 public:
  /// Maximum number of first entries that can be requested.
  static constexpr int kMost = HeadEntries::kMax / 2 + 1;

  /// Scratch of the search, in shared memory.
  struct Memory {
    KeySelection::Memory selection;
    HeadEntries found;
    int count;
  };

  /// Begins a search, with all threads of a block of kEndThreads. Earlier writes of these threads
  /// to shared memory can be read afterwards.
  __device__ explicit HeadSearch(Memory& memory) : memory_(memory), selection_(memory.selection) {
    selection_.clear();
    __syncthreads();
  }

  struct Head {
    int n;              ///< number of entries
    std::int32_t from;  ///< key such that the entries are all values with at least this key
  };

  /// Puts the first entries of a row that has an allowed token into `entries`: at least n, or all
  /// allowed ones. 1 <= n <= kMost.
  __device__ Head find(const KeyedRow& row, const TileKeys& keys, int n, HeadEntries& entries) {
    std::int32_t from = bound_of(row, keys, n);
    list(row, from, [](std::int64_t, float) { return true; });
    if (memory_.count > HeadEntries::kMax) from = list_exactly(row, {from, keys.largest}, n);
    const int count = memory_.count;
    sort(count, entries);
    return {count, from};
  }

 private:
  /// Returns a key such that at least n values, or all values, have at least this key.
  __device__ std::int32_t bound_of(const KeyedRow& row, const TileKeys& keys, int n) {
    if (keys.count < n) return kEmptyTileKey + 1;
    return selection_
        .select({keys.smallest, keys.largest}, n, n / 4,
                [&](const auto& count) {
                  for (int tile = static_cast<int>(threadIdx.x); tile < row.tiles;
                       tile += static_cast<int>(blockDim.x)) {
                    count(row.keys[tile], 1);
                  }
                })
        .key;
  }

  /// Lists the values whose keys are at least a given key and for which wanted(token, x), as far as
  /// there is room.
  template <class Wanted>
  __device__ void list(const KeyedRow& row, std::int32_t from, const Wanted& wanted) {
    __syncthreads();  // after all threads have read the previous count
    if (threadIdx.x == 0) memory_.count = 0;
    __syncthreads();
    row.visit_from(from, [&](std::int64_t token, float x) {
      if (!wanted(token, x)) return;
      const int place = atomicAdd(&memory_.count, 1);
      if (place >= HeadEntries::kMax) return;
      memory_.found.value[place] = x;
      memory_.found.id[place] = static_cast<std::int32_t>(token);
    });
    __syncthreads();
  }

  /// Lists the first n values of a row that has more than n values in the interval. Returns the
  /// smallest key for which the list has all values.
  __device__ std::int32_t list_exactly(const KeyedRow& row, const KeyInterval& interval, int n) {
    const KeyCut cut = selection_.select(interval, n, 0, [&](const auto& count) {
      row.visit_from(interval.low, [&](std::int64_t, float x) { count(order_key(x), 1); });
    });
    const float last = from_order_key(cut.key);
    const auto vocab = static_cast<std::int32_t>(row.row.vocab);
    std::int32_t tie_end = vocab;
    if (cut.reached > n) {  // ties are cut so that smaller ids are kept
      const KeyCut of_ids =
          selection_.select({-vocab, -1}, n - cut.above, 0, [&](const auto& count) {
            row.visit_from(cut.key, [&](std::int64_t token, float x) {
              if (x == last) count(-1 - static_cast<std::int32_t>(token), 1);
            });
          });
      tie_end = -of_ids.key;
    }
    list(row, cut.key, [&](std::int64_t token, float x) { return x > last || token < tie_end; });
    return cut.reached > n ? cut.key + 1 : cut.key;
  }

  __device__ void sort(int count, HeadEntries& entries) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
      const float x = memory_.found.value[i];
      const std::int32_t id = memory_.found.id[i];
      int before = 0;
      for (int j = 0; j < count; ++j) {
        const float other = memory_.found.value[j];
        before += other > x || (other == x && memory_.found.id[j] < id) ? 1 : 0;
      }
      entries.value[before] = x;
      entries.id[before] = id;
    }
    __syncthreads();
  }

  Memory& memory_;
  KeySelection selection_;
};

}  // namespace fairdraw::cuda
