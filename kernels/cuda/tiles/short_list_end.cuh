// The end of a row with a short list: at most one candidate a thread.
//
// A group of threads for each candidate counts how many are larger and what they weigh; that says
// at once whether it survives top_k and top_p. Then prefix sums over the threads, in token-id
// order, meet the drawn position. No sort: two barriers, three with top_p. Exact: weights are
// integers of 128 bits in the row's unit.
#pragma once

#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/tiles/row_end.cuh"
#include "cuda/tiles/row_results.cuh"

namespace fairdraw::cuda {

/// How many candidates come before one, and what those of larger value weigh.
struct CandidateRank {
  int before;
  uint128_t above;
};

/// 2^log threads have candidate `number`; `first` is the thread's place among them. Weights are
/// read only where kWeighs.
template <bool kWeighs>
__device__ __forceinline__ CandidateRank rank_candidate(const RankedCandidates& ranked, int n,
                                                        int number, int first, int log,
                                                        bool lowest_id) {
  const std::int32_t key = ranked.key[min(number, n - 1)];
  const std::int32_t tied = lowest_id ? number : 0;  // ties before this come first
  CandidateRank rank{};
#pragma unroll 4
  for (int other = first; other < n; other += 1 << log) {
    const std::int32_t that = ranked.key[other];
    rank.before += that > key || (that == key && other < tied) ? 1 : 0;
    if constexpr (kWeighs) {
      const uint128_t weight = ranked.weight[other];
      rank.above += that > key ? weight : uint128_t{0};
    }
  }
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {  // groups are whole: others add nothing
    const bool within = distance < 1 << log;
    const int before = __shfl_xor_sync(kAllLanes, rank.before, distance);
    rank.before += within ? before : 0;
    if constexpr (kWeighs) {
      const uint128_t above = value_of_lane(rank.above, lane_of_thread() ^ distance);
      rank.above += within ? above : uint128_t{0};
    }
  }
  return rank;
}

/// The smallest key that is kept, for the records: one barrier.
__device__ inline RowCut cut_of_kept(RowEnd& row, bool kept, std::int32_t key, int id,
                                     bool ties_cut) {
  const std::int32_t of_warp = __reduce_min_sync(kAllLanes, kept ? key : INT_MAX);
  sync_end();  // the ranked candidates have been read
  if (lane_of_thread() == 0) row.low_of_warp[warp_of_thread()] = of_warp;
  sync_end();
  std::int32_t low = INT_MAX;
  for (const std::int32_t other : row.low_of_warp) low = min(low, other);
  const int last = __reduce_max_sync(kAllLanes, kept && key == low ? id : -1);
  sync_end();
  if (lane_of_thread() == 0) row.low_of_warp[warp_of_thread()] = last;
  sync_end();
  int tie_end = 0;
  for (const std::int32_t other : row.low_of_warp) tie_end = max(tie_end, other + 1);
  return {low, ties_cut ? tie_end : row.filters.vocab};
}

/// The list has been written, 1 <= n <= kEndThreads candidates, with a barrier after it. False
/// where it cannot hold the nucleus.
template <bool kFromProbs>
__device__ __forceinline__ bool end_short_list(const RowsTask& task,
                                               const RowFilters& filters, const RowIndex& index,
                                               const RowWeigher<kFromProbs>& weigh, RowEnd& row,
                                               int n) {
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < n) {
    const CandidateList::Entry mine = row.list.entry(thread);
    row.ranked.key[thread] = mine.key;
    row.ranked.weight[thread] = weigh(from_order_key(mine.key), index.keys[mine.id / kTileSize]);
  }
  BlockMasses masses(row.masses);
  sync_end();
  int log = 0;
  if (n > 0) log = min(5, __clz(n - 1) - __clz(kEndThreads - 1));  // n << log <= kEndThreads
  const int number = thread >> log;
  const int first = thread & ((1 << log) - 1);
  const bool there = number < n;
  const std::int32_t key = there ? row.ranked.key[number] : INT_MAX;
  const CandidateRank rank =
      filters.top_p_on()
          ? rank_candidate<true>(row.ranked, n, number, first, log, filters.lowest_id)
          : rank_candidate<false>(row.ranked, n, number, first, log, filters.lowest_id);
  const bool in_top_k = !filters.top_k_on() || rank.before < filters.top_k;
  const uint128_t weight = there && first == 0 ? row.ranked.weight[number] : uint128_t{0};
  bool kept = there && first == 0 && in_top_k;
  if (filters.top_p_on()) {
    const uint128_t listed = masses.sum(kept ? weight : 0);
    const uint128_t target =
        nucleus_target(filters.top_p, filters.by_row_mass ? row.filters.row_mass : listed);
    if (!filters.top_k_on() && listed < target) return false;
    kept = kept && rank.above < target;
  }
  const BlockMasses::Prefix prefix = masses.prefix(kept ? weight : 0);
  const uint128_t position = multiply_high(row.filters.word, prefix.total);
  const bool drawn = kept && prefix.before <= position && position < prefix.before + weight;
  if (task.records == nullptr) {
    if (drawn) write_drawn(task, row.number, row.list.entry(number).id, row.keys.largest, {}, prefix.total);
    return true;
  }
  const int id = there ? row.list.entry(number).id : 0;
  const bool ties_cut = sync_end_or(there && first == 0 && !in_top_k);
  RowCut cut = cut_of_kept(row, kept, key, id, filters.lowest_id && ties_cut);
  if (drawn) write_drawn(task, row.number, id, row.keys.largest, cut, prefix.total);
  return true;
}

}  // namespace fairdraw::cuda
