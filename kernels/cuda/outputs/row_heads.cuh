// Finds the first entries of a row in the order of values, with one block of kEndThreads threads.
// The largest value comes first, and the lowest id among equal values. The search uses the largest
// values of the row's tiles.
//
// At least n values of the row reach the n-th largest of the tiles' maxima, so this maximum is a
// lower bound of the n-th largest value. Only the tiles whose maximum is at least this bound are
// read, which are n tiles, or more if there are ties. The values of these tiles that reach the
// bound are listed, and then sorted by counting. The list overflows if there are many ties or fewer
// than n tiles. Then a search over the row itself, by levels of bins (outputs/key_selection.cuh),
// finds the cut between the n-th entry and the next one, and the entries before the cut are listed.
//
// Determinism: threads append to the list in any order, but the list is sorted by value and id
// afterwards.
#pragma once

#include <climits>
#include <cstdint>

#include "common/float_order.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/outputs/key_selection.cuh"
#include "cuda/rows/filtered_row.cuh"
#include "cuda/tiles/row_index.cuh"
#include "cuda/tiles/tile_search.cuh"

namespace fairdraw::cuda {

/// Row with the keys of its tiles. The keys are computed from the tokens for which
/// FilteredRow::is_allowed is true.
struct KeyedRow {
  const FilteredRow& row;
  const std::int32_t* keys;
  int tiles;

  /// Calls visit(token, x) for the allowed tokens whose keys are at least `lowest`; the warps of
  /// the block share the tokens. Only tiles whose largest key is at least `lowest` are read.
  template <class Visit>
  __device__ void visit_from(std::int32_t lowest, const Visit& visit) const {
    visit_share(lowest, warp_of_thread(), warps_of_block(), visit);
  }
  /// Visits the same tokens as visit_from, shared by `warps` warps, of which this warp has the
  /// number `warp`.
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

/// First entries of a row in order.
struct HeadEntries {
  static constexpr int kMax = 512;

  float value[kMax];
  std::int32_t id[kMax];
};

class HeadSearch {
 public:
  /// Maximum number of first entries that a search may request.
  static constexpr int kMax = HeadEntries::kMax / 2 + 1;

  /// Shared memory of the search.
  struct Memory {
    KeySelection::Memory selection;
    HeadEntries found;
    int count;
  };

  /// Begins a search, with all threads of a block of kEndThreads threads. Afterwards, these threads
  /// can read what they wrote to shared memory before the call.
  __device__ explicit HeadSearch(Memory& memory) : memory_(memory), selection_(memory.selection) {
    selection_.clear();
    __syncthreads();
  }

  struct Head {
    int n;              ///< number of entries
    std::int32_t from;  ///< smallest key of the entries; the entries are all values with at least
                        ///< this key
  };

  /// Writes the first entries of a row that has an allowed token to `entries`: at least n entries,
  /// or all allowed tokens. Precondition: 1 <= n <= kMax.
  __device__ Head find(const KeyedRow& row, const TileKeys& keys, int n, HeadEntries& entries) {
    std::int32_t from = bound_of(row, keys, n);
    list(row, from, [](std::int64_t, float) { return true; });
    if (memory_.count > HeadEntries::kMax) from = list_exactly(row, {from, keys.largest}, n);
    const int count = memory_.count;
    sort(count, entries);
    return {count, from};
  }

 private:
  /// Returns a key such that at least n values, or all values, have keys of at least this size.
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

  /// Lists the values whose keys are at least a given key and for which wanted(token, x) is true,
  /// until the list is full.
  template <class Wanted>
  __device__ void list(const KeyedRow& row, std::int32_t from, const Wanted& wanted) {
    __syncthreads();  // wait until all threads have read the previous count
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

  /// Lists the first n values of a row, which must have more than n values in the interval. Returns
  /// the smallest key such that the list has all values with at least this key.
  __device__ std::int32_t list_exactly(const KeyedRow& row, const KeyInterval& interval, int n) {
    const KeyCut cut = selection_.select(interval, n, 0, [&](const auto& count) {
      row.visit_from(interval.low, [&](std::int64_t, float x) { count(order_key(x), 1); });
    });
    const float last = from_order_key(cut.key);
    const auto vocab = static_cast<std::int32_t>(row.row.vocab);
    std::int32_t tie_end = vocab;
    if (cut.reached > n) {  // ties are cut so that the tokens with smaller ids are kept
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
