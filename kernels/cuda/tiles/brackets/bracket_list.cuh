// Finds the threshold of a row in the list of the row's values that are in a bracket.
//
// Contract. The list has all values in the bracket, in any order. For each tile, the row's index
// has the sum of the weights above the bracket. The functions find the cut in the list, and add the
// weight of each listed token that survives the cut to the sum of the token's tile.
//
// Algorithm for a nucleus. A histogram over the keys with 256 bins shows which bins are near the
// threshold; the mass of a bin is estimated from the weight in the middle of the bin. The values
// above these bins are added to the tiles' sums exactly, and the total of all sums is compared with
// the target. If at most 256 values remain, they are ranked exactly; if more remain, they are
// divided into bins again. No estimate decides the result: if an estimate was wrong, the sums show
// it, and the threshold is then bisected by exact sums.
//
// Each function begins with a barrier or is called after a barrier, because only the calls to one
// BlockMasses object alternate between the two arrays of sums.
//
// Determinism: integers decide the result, which does not depend on the order of the list.
#pragma once

#include <climits>
#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/tiles/shared_row.cuh"

namespace fairdraw::cuda {

/// List of the values in a bracket, divided among the threads. Each thread has an odd number of
/// consecutive entries, so that the lanes of a warp add to different tiles and read from different
/// banks of shared memory.
struct ListedBracket {
  const RowEnd& row;
  int size;

  template <class Visit>
  __device__ __forceinline__ void for_each(std::int32_t lowest, const Visit& visit) const {
    const int share = (size + kEndThreads - 1) / kEndThreads | 1;
    const int begin = static_cast<int>(threadIdx.x) * share;
#pragma unroll 1
    for (int i = begin; i < min(begin + share, size); ++i) {
      const BracketList::Entry entry = row.bracket_entries()[i];
      if (entry.key >= lowest) visit(entry.key, entry.id, row.index().keys[entry.id / kTileSize]);
    }
  }
};

/// Returns the total weight of the tiles that this thread visits, from the sums of an index.
template <bool kFromProbs>
__device__ __noinline__ uint128_t mass_of_tiles(RowIndex passed, RowWeigher<kFromProbs> weigh) {
  const RowIndex index{&in_shared(*passed.keys), &in_shared(*passed.sums), passed.tiles};
  uint128_t mine = 0;
#pragma unroll 1
  for (int tile = static_cast<int>(threadIdx.x); tile < index.tiles; tile += kEndThreads) {
    const std::uint64_t sum = index.sums[tile];
    if (sum != 0) mine += row_weight(sum, weigh.shift_of(index.keys[tile]));
  }
  return mine;
}

/// Returns the total mass of the sums in the row's index. The function has two barriers.
template <bool kFromProbs>
__device__ __noinline__ uint128_t mass_of_sums(const RowEnd& passed) {
  const RowEnd& row = in_shared(passed);
  const RowWeigher<kFromProbs> weigh(row.rule, row.keys.largest);
  const uint128_t mine = mass_of_tiles(row.index(), weigh);
  BlockMasses masses(const_cast<BlockMasses::Memory&>(row.masses));
  const uint128_t mass = masses.sum(mine);
  sync_end();
  return mass;
}

/// Adds a token's weight to the sum of its tile.
template <bool kFromProbs>
__device__ __forceinline__ void add_to_tile(const RowEnd& row, std::int32_t key, int id,
                                            std::int32_t tile_key) {
  const TileWeights<kFromProbs> weights(from_order_key(tile_key), row.rule);
  const float x = from_order_key(key);
  const std::uint64_t weight = weights.are_quick() ? weights.weigh(x) : weights.weigh_slowly(x);
  atomicAdd(reinterpret_cast<unsigned long long*>(row.sums + id / kTileSize),
            static_cast<unsigned long long>(weight));
}

/// Adds the weights of listed tokens to the sums of their tiles, for the tokens whose keys are in a
/// range and that survive a cut. The function has one barrier.
template <bool kFromProbs>
__device__ __noinline__ void add_listed(const RowEnd& passed, int size, KeyInterval range,
                                        RowCut cut) {
  const RowEnd& row = in_shared(passed);
  ListedBracket{row, size}.for_each(range.low,
                                    [&](std::int32_t key, int id, std::int32_t tile_key) {
                                      if (range.holds(key) && cut.keeps(key, id))
                                        add_to_tile<kFromProbs>(row, key, id, tile_key);
                                    });
  sync_end();
}

/// Returns any key in [low, high] of the list entries written so far, or INT_MIN if there is no
/// such key. The function has two barriers.
__device__ __noinline__ inline std::int32_t listed_key(RowEnd& passed, std::int32_t low,
                                                       std::int32_t high) {
  RowEnd& row = in_shared(passed);
  std::int32_t mine = INT_MIN;
  const auto listed = static_cast<int>(row.bracket_capacity);
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < listed && mine == INT_MIN; i += kEndThreads) {
    const std::int32_t key = row.bracket_entries()[i].key;
    if (key >= low && key <= high) mine = key;
  }
  const unsigned has = __ballot_sync(kAllLanes, mine != INT_MIN);
  const int lane = has == 0 ? 0 : __ffs(static_cast<int>(has)) - 1;
  if (lane_of_thread() == lane) row.low_of_warp[warp_of_thread()] = mine;
  sync_end();
  std::int32_t found = INT_MIN;
  for (const std::int32_t key : row.low_of_warp) {
    if (key != INT_MIN) found = key;
  }
  sync_end();
  return found;
}

/// Finds the cut at the k-th largest value of the list, and adds the weights of the tokens that
/// survive the cut to their tiles' sums.
template <bool kFromProbs>
__device__ __noinline__ RowCut kth_in_list(RowEnd& passed, int size, KeyInterval bracket, int k) {
  RowEnd& row = in_shared(passed);
  KeySelection selection(row.selection);
  selection.clear();
  sync_end();
  BlockMasses masses(row.masses);
  const RowWeigher<kFromProbs> weigh(row.rule, row.keys.largest);
  RowFilters filters = row.filters;
  filters.top_k = k;
  CutSearch<kFromProbs> search{selection, masses, weigh, filters, bracket.high};
  const RowCut cut = search.top_k(ListedBracket{row, size}, bracket.low);
  add_listed<kFromProbs>(row, size, {cut.low, bracket.high}, cut);
  return cut;
}

/// Range of keys that consists of whole bins, and the number of values in this range.
struct OpenBins {
  KeyInterval range;
  int count;
};

/// Returns the bins near the threshold as one range of keys. The function is one level of
/// KeySelection, with estimated masses in place of counts.
template <bool kFromProbs>
__device__ __noinline__ OpenBins bins_about(RowEnd& passed, int size, KeyInterval open,
                                            uint128_t above, uint128_t target) {
  RowEnd& row = in_shared(passed);
  constexpr int kBins = KeySelection::kBins;
  static_assert(kBins == kEndThreads);
  const auto thread = static_cast<int>(threadIdx.x);
  std::int32_t* counts = row.selection.bins[0];
  counts[thread] = 0;
  sync_end();
  ListedBracket{row, size}.for_each(open.low, [&](std::int32_t key, int, std::int32_t) {
    if (open.holds(key)) atomicAdd(&counts[open.bin_of(key)], 1);
  });
  sync_end();
  // Masses are relative to the largest value's weight, and are summed from the largest bin down.
  const float largest = from_order_key(row.keys.largest);
  const int bin = kBins - 1 - thread;
  const int count = counts[bin];
  float mine = 0;
  if (count > 0) {
    const KeyInterval keys = open.of_bin(bin);
    const float middle = 0.5F * from_order_key(keys.low) + 0.5F * from_order_key(keys.high);
    mine = static_cast<float>(count) *
           (kFromProbs ? middle / largest : exp2f((middle - largest) * row.rule.scale));
  }
  float upto = warp_inclusive_sum(mine);
  if (lane_of_thread() == kWarp - 1) row.guess.of_warp[warp_of_thread()] = upto;
  // The initial value kBins is larger than the number of every bin, because no bin has reached the
  // target yet.
  if (thread == 0) row.guess.edges[0] = kBins;
  sync_end();
#pragma unroll
  for (int warp = 0; warp < kEndWarps; ++warp) {
    upto += warp < warp_of_thread() ? row.guess.of_warp[warp] : 0.0F;
  }
  const RowWeigher<kFromProbs> weigh(row.rule, row.keys.largest);
  const double unit = nearest_double(weigh(largest, row.keys.largest));
  const auto wanted = static_cast<float>(nearest_double(target - above) / unit);
  if (upto >= wanted) atomicMin(&row.guess.edges[0], thread);
  sync_end();
  const int at = kBins - 1 - min(row.guess.edges[0], kBins - 1);
  const int from = max(at - 1, 0);
  const int to = min(at + 1, open.bin_of(open.high));
  OpenBins result{{open.of_bin(from).low, open.of_bin(to).high}, 0};
  for (int i = from; i <= to; ++i) result.count += counts[i];
  // A bin of a single key cannot be divided further, so only the bin that reaches the target is
  // returned.
  if (open.shift() == 0 && result.count > kEndThreads) result = {open.of_bin(at), counts[at]};
  sync_end();
  return result;
}

/// Ranks the list's values in a range of keys, at most kEndThreads of them, and adds the weights of
/// the values in the nucleus to their tiles' sums. Returns the smallest key of the nucleus, or
/// INT_MAX if all these values together do not reach the target.
template <bool kFromProbs>
__device__ __noinline__ std::int32_t rank_listed(RowEnd& passed, int size, KeyInterval open,
                                                 int count, uint128_t above, uint128_t target) {
  RowEnd& row = in_shared(passed);
  const auto thread = static_cast<int>(threadIdx.x);
  int* ranked = &row.guess.edges[0];
  if (thread == 0) *ranked = 0;
  sync_end();
  const RowWeigher<kFromProbs> weigh(row.rule, row.keys.largest);
  ListedBracket{row, size}.for_each(open.low, [&](std::int32_t key, int id, std::int32_t tile_key) {
    if (!open.holds(key)) return;
    const int place = atomicAdd(ranked, 1);
    row.ranked.key[place] = key;
    row.ranked.id[place] = id;
    row.ranked.weight[place] = weigh(from_order_key(key), tile_key);
  });
  sync_end();
  const bool there = thread < count;
  const std::int32_t key = there ? row.ranked.key[thread] : INT_MIN;
  uint128_t larger = 0;
#pragma unroll 2
  for (int other = 0; other < count; ++other) {
    if (row.ranked.key[other] > key) larger += row.ranked.weight[other];
  }
  const uint128_t all =
      BlockMasses(row.masses).sum(there ? row.ranked.weight[thread] : uint128_t{0});
  if (above + all < target) return INT_MAX;
  const bool kept = there && above + larger < target;
  if (kept) {
    const int id = row.ranked.id[thread];
    add_to_tile<kFromProbs>(row, key, id, row.index().keys[id / kTileSize]);
  }
  const std::int32_t of_warp = __reduce_min_sync(kAllLanes, kept ? key : INT_MAX);
  if (lane_of_thread() == 0) row.low_of_warp[warp_of_thread()] = of_warp;
  sync_end();
  std::int32_t low = INT_MAX;
  for (const std::int32_t other : row.low_of_warp) low = min(low, other);
  return low;
}

/// Returns the smallest key of the nucleus, and adds the weights of the listed tokens in the
/// nucleus to their tiles' sums. `above` is the mass above the bracket, which is less than
/// `target`. If the sums contradict the estimate or do not reach the target, the function returns
/// INT_MAX, and the tiles' sums have no meaning afterwards.
template <bool kFromProbs>
__device__ __noinline__ std::int32_t narrow_to_nucleus(RowEnd& passed, int size, KeyInterval open,
                                                       uint128_t above, uint128_t target) {
  RowEnd& row = in_shared(passed);
  const RowCut all{open.low, row.filters.vocab};
#pragma unroll 1
  while (true) {
    const OpenBins bins = bins_about<kFromProbs>(row, size, open, above, target);
    if (bins.range.high < open.high) {
      add_listed<kFromProbs>(row, size, {bins.range.high + 1, open.high}, all);
      above = mass_of_sums<kFromProbs>(row);
      if (above >= target) return INT_MAX;
    }
    open = bins.range;
    if (open.single()) {
      add_listed<kFromProbs>(row, size, open, all);
      return mass_of_sums<kFromProbs>(row) >= target ? open.low : INT_MAX;
    }
    if (bins.count <= kEndThreads) {
      return rank_listed<kFromProbs>(row, size, open, bins.count, above, target);
    }
  }
}

/// Finds the smallest key of the nucleus by exact sums over the list, one bit of the key at a time,
/// without changing the tiles' sums. Returns INT_MAX if the list does not reach the target.
template <bool kFromProbs>
__device__ __noinline__ std::int32_t bisect_list(RowEnd& passed, int size, KeyInterval bracket,
                                                 uint128_t above, uint128_t target) {
  RowEnd& row = in_shared(passed);
  sync_end();
  KeySelection selection(row.selection);
  BlockMasses masses(row.masses);
  const RowWeigher<kFromProbs> weigh(row.rule, row.keys.largest);
  CutSearch<kFromProbs> search{selection, masses, weigh, row.filters, bracket.high};
  const ListedBracket listed{row, size};
  const RowCut all{bracket.low, row.filters.vocab};
  const uint128_t listed_mass = masses.sum(search.kept_of_thread(listed, all));
  if (above + listed_mass < target) return INT_MAX;
  return search.nucleus_end(listed, bracket, above, target);
}

/// Returns the id that follows the n-th token with a given key, in a tile that has at least n such
/// tokens. A whole warp must call this function.
template <RowForm kForm>
__device__ __forceinline__ int tie_in_tile(const RowOfTiles<kForm>& row, int tile, std::int32_t key,
                                           int n) {
  float x[kLaneValues];
  row.read_in_order(tile, x);
  const float value = from_order_key(key);
  int mine = 0;
#pragma unroll
  for (const float other : x) mine += other == value ? 1 : 0;
  const int before = warp_inclusive_sum(mine) - mine;
  int upto = before;
  int end = INT_MAX;
#pragma unroll
  for (int i = 0; i < kLaneValues; ++i) {
    upto += x[i] == value ? 1 : 0;
    if (upto == n) end = min(end, tile * kTileSize + lane_of_thread() * kLaneValues + i + 1);
  }
  return __reduce_min_sync(kAllLanes, before < n ? end : INT_MAX);
}

/// Returns the id that follows the row's n-th token with a given key, or vocab if the row has fewer
/// such tokens. Precondition: the sum of each tile in the index is the number of the tile's tokens
/// with this key.
template <RowForm kForm>
__device__ __noinline__ int end_of_ties(RowEnd& passed, const RowOfTiles<kForm>& values,
                                        std::int32_t key, int n) {
  RowEnd& row = in_shared(passed);
  if (warp_of_thread() == 0) {
    int end = row.filters.vocab;
    int before = 0;
#pragma unroll 1
    for (int first = 0; first < row.index().tiles; first += kWarp) {
      const int tile = first + lane_of_thread();
      const int mine = tile < row.index().tiles ? static_cast<int>(row.index().sums[tile]) : 0;
      const int upto = before + warp_inclusive_sum(mine);
      const unsigned reached = __ballot_sync(kAllLanes, upto >= n);
      if (reached != 0) {
        const int lane = __ffs(static_cast<int>(reached)) - 1;
        end = tie_in_tile(values, first + lane, key, n - __shfl_sync(kAllLanes, upto - mine, lane));
        break;
      }
      before = __shfl_sync(kAllLanes, upto, kWarp - 1);
    }
    if (lane_of_thread() == 0) row.low_of_warp[0] = end;
  }
  sync_end();
  const int end = row.low_of_warp[0];
  sync_end();
  return end;
}

}  // namespace fairdraw::cuda
