// Finishes a row with a short list of candidates, which has at most one candidate per thread.
//
// Several threads per candidate count the larger candidates and add up their weights, with four
// keys per load; the count and the weight decide whether top_k and top_p keep the candidate. Then
// prefix sums over the threads, in the order of token ids, find the drawn position. The list is not
// sorted, so only two barriers are needed, or three with top_p. The sums are exact, because weights
// are integers of 104 bits in the row's unit.
#pragma once

#include <climits>
#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/tiles/row_results.cuh"
#include "cuda/tiles/shared_row.cuh"

namespace fairdraw::cuda {

/// Number of candidates that precede a candidate, with the weight of the candidates that have
/// larger values.
struct CandidateRank {
  int before;
  uint128_t above;
};

/// Ranks candidate `number` with 2^log threads, of which this thread has the index `first`. Weights
/// are added up only if kWeighs is true.
template <bool kWeighs>
__device__ __forceinline__ CandidateRank rank_candidate(const CandidateList& list, int n,
                                                        int number, int first, int log,
                                                        bool lowest_id) {
  constexpr int kAtOnce = CandidateList::kKeysAtOnce;
  const std::int32_t key = list.key[min(number, n - 1)];
  const int own = number / kAtOnce;  // number of the load whose four keys include the candidate's
                                     // own key
  int before = 0;
  RankedWeight above{0, 0};
#pragma unroll 2
  for (int four = first; four * kAtOnce < n; four += 1 << log) {
    const int4 keys = reinterpret_cast<const int4*>(list.key)[four];
    const std::int32_t that[kAtOnce] = {keys.x, keys.y, keys.z, keys.w};
    // With lowest_id, tied candidates with lower ids come first; ties within the candidate's own
    // four keys are counted below.
    const std::int32_t from = lowest_id && four < own ? key - 1 : key;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      before += that[i] > from ? 1 : 0;
      if constexpr (kWeighs) {
        if (that[i] > key) {
          const RankedWeight weight = list.ranked[four * kAtOnce + i];
          above.low += weight.low;
          above.high += weight.high;
        }
      }
    }
  }
  if (lowest_id && first == 0 && number < n) {
    for (int other = own * kAtOnce; other < number; ++other) before += list.key[other] == key;
  }
#pragma unroll 1
  for (int distance = 1; distance < 1 << log; distance *= 2) {
    before += __shfl_xor_sync(kAllLanes, before, distance);
    if constexpr (kWeighs) {
      above.low += __shfl_xor_sync(kAllLanes, above.low, distance);
      above.high += __shfl_xor_sync(kAllLanes, above.high, distance);
    }
  }
  return {before, above.sum()};
}

/// Returns the cut at the smallest kept key, for the row's record.
__device__ inline RowCut cut_of_kept(RowEnd& row, bool kept, std::int32_t key, int id,
                                     bool ties_cut) {
  const std::int32_t of_warp = __reduce_min_sync(kAllLanes, kept ? key : INT_MAX);
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

/// Finishes a row whose candidate list is short. Preconditions: the list has n candidates, with 1
/// <= n <= kEndThreads; a barrier has followed the writing of the list; top_k is on.
template <bool kFromProbs>
__device__ __forceinline__ void end_short_list(const RowOutputs& outputs, const RowFilters& filters,
                                               const RowIndex& index,
                                               const RowWeigher<kFromProbs>& weigh, RowEnd& row,
                                               int n) {
  const auto thread = static_cast<int>(threadIdx.x);
  CandidateList& list = row.list;
  int log = 0;
  if (n > 0) log = min(5, __clz(n - 1) - __clz(kEndThreads - 1));  // n << log <= kEndThreads
  const int number = thread >> log;
  const int first = thread & ((1 << log) - 1);
  const bool there = number < n;
  if (thread < n) {
    const CandidateList::Entry mine = list.entry(thread);
    list.ranked[thread] =
        RankedWeight::of(weigh(from_order_key(mine.key), index.keys[mine.id / kTileSize]));
  }
  CandidateRank rank{};
  if (!filters.top_p_on()) {
    rank = rank_candidate<false>(list, n, number, first, log, filters.lowest_id);
  }
  BlockMasses masses(row.masses);
  sync_end();
  if (filters.top_p_on()) {
    rank = rank_candidate<true>(list, n, number, first, log, filters.lowest_id);
  }
  const bool in_top_k = rank.before < filters.top_k;
  const uint128_t weight = there && first == 0 ? list.ranked[number].sum() : uint128_t{0};
  bool kept = there && first == 0 && in_top_k;
  if (filters.top_p_on()) {
    const uint128_t listed = masses.sum(kept ? weight : 0);
    const uint128_t target =
        nucleus_target(filters.top_p, filters.by_row_mass ? row.filters.row_mass : listed);
    kept = kept && rank.above < target;
  }
  const BlockMasses::Prefix prefix = masses.prefix(kept ? weight : 0);
  const uint128_t position = multiply_high(row.filters.word, prefix.total);
  const bool drawn = kept && prefix.before <= position && position < prefix.before + weight;
  const int id = there ? list.id[number] : 0;
  RowCut cut{};
  if (outputs.record != nullptr) {
    const bool ties_cut = sync_end_or(there && first == 0 && !in_top_k);
    const std::int32_t key = there ? list.key[number] : INT_MAX;
    cut = cut_of_kept(row, kept, key, id, filters.lowest_id && ties_cut);
  }
  if (drawn) {
    write_drawn(outputs, RowEndKind::short_list, id, row.keys.largest, cut, prefix.total);
  }
}

}  // namespace fairdraw::cuda
