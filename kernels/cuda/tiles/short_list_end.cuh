// The end of a row with a short list: at most one candidate a thread.
//
// A group of threads for each candidate counts how many are larger and what they weigh; that says at
// once whether it survives top_k and top_p. Then prefix sums over the threads, in token-id order,
// meet the drawn position. No sort: two barriers, three with top_p. Exact: weights are integers of
// 128 bits in the row's unit.
#pragma once

#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/tiles/row_end.cuh"

namespace fairdraw::cuda {

/// How many candidates come before one, and what those of larger value weigh.
struct CandidateRank {
  int before;
  uint128_t above;
};

/// 2^log threads have candidate `number`; `first` is the thread's place among them.
__device__ __forceinline__ CandidateRank rank_candidate(const RankedCandidates& ranked, int n,
                                                        int number, int first, int log,
                                                        std::int32_t key, bool lowest_id) {
  CandidateRank rank{};
#pragma unroll 2
  for (int other = first; other < n; other += 1 << log) {
    const std::int32_t that = ranked.key[other];
    if (that > key) rank.above += ranked.weight[other];
    rank.before += that > key || (that == key && other < number && lowest_id) ? 1 : 0;
  }
#pragma unroll 1
  for (int distance = 1; distance < 1 << log; distance *= 2) {
    rank.before += __shfl_xor_sync(kAllLanes, rank.before, distance);
    rank.above += value_of_lane(rank.above, lane_of_thread() ^ distance);
  }
  return rank;
}

/// The smallest key that is kept, for the records: one barrier.
__device__ inline RowCut cut_of_kept(RowEnd& row, bool kept, std::int32_t key, int id,
                                     bool ties_cut) {
  const std::int32_t of_warp = __reduce_min_sync(kAllLanes, kept ? key : INT_MAX);
  __syncthreads();  // the ranked candidates have been read
  if (lane_of_thread() == 0) row.low_of_warp[warp_of_thread()] = of_warp;
  __syncthreads();
  std::int32_t low = INT_MAX;
  for (const std::int32_t other : row.low_of_warp) low = min(low, other);
  const int last = __reduce_max_sync(kAllLanes, kept && key == low ? id : -1);
  __syncthreads();
  if (lane_of_thread() == 0) row.low_of_warp[warp_of_thread()] = last;
  __syncthreads();
  int tie_end = 0;
  for (const std::int32_t other : row.low_of_warp) tie_end = max(tie_end, other + 1);
  return {low, ties_cut ? tie_end : row.filters.vocab};
}

/// The list has been written, n <= kEndThreads candidates, with a barrier after it. False where
/// it cannot hold the nucleus.
template <bool kFromProbs>
__device__ __forceinline__ bool end_short_list(const FilterTilesTask& task, RowEnd& row, int n) {
  const RowFilters& filters = row.filters;
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < n) {
    const RowWeigher<kFromProbs> weigh(row.rule, row.keys.largest);
    const CandidateList::Entry mine = row.list.entry(thread);
    row.ranked.key[thread] = mine.key;
    row.ranked.weight[thread] =
        weigh(from_order_key(mine.key), row.index.keys[mine.id / kTileSize]);
  }
  BlockMasses masses(row.masses);
  __syncthreads();
  int log = 0;
  while ((n << (log + 1)) <= kEndThreads && log < 5) ++log;
  const int number = thread >> log;
  const int first = thread & ((1 << log) - 1);
  const bool there = number < n;
  const std::int32_t key = there ? row.ranked.key[number] : INT_MAX;
  const CandidateRank rank =
      rank_candidate(row.ranked, n, number, first, log, key, filters.lowest_id);
  const bool in_top_k = !filters.top_k_on() || rank.before < filters.top_k;
  const uint128_t weight = there && first == 0 ? row.ranked.weight[number] : uint128_t{0};
  bool kept = there && first == 0 && in_top_k;
  if (filters.top_p_on()) {
    const uint128_t listed = masses.sum(kept ? weight : 0);
    const uint128_t target =
        nucleus_target(filters.top_p, filters.by_row_mass ? filters.row_mass : listed);
    if (!filters.top_k_on() && listed < target) return false;
    kept = kept && rank.above < target;
  }
  const BlockMasses::Prefix prefix = masses.prefix(kept ? weight : 0);
  const uint128_t position = multiply_high(filters.word, prefix.total);
  const bool drawn = kept && prefix.before <= position && position < prefix.before + weight;
  if (task.records == nullptr) {
    if (drawn) write_drawn(task, row.number, row.list.entry(number).id, {}, prefix.total);
    return true;
  }
  const int id = there ? row.list.entry(number).id : 0;
  const bool ties_cut = __syncthreads_or(there && first == 0 && !in_top_k) != 0;
  RowCut cut = cut_of_kept(row, kept, key, id, filters.lowest_id && ties_cut);
  if (drawn) write_drawn(task, row.number, id, cut, prefix.total);
  return true;
}

}  // namespace fairdraw::cuda
