// The end of a row with a long list: each thread has a few consecutive candidates of a section.
//
// The k-th largest by levels of bins, the nucleus by bisection (row_cut.cuh), then prefix sums of
// what is kept over the threads, and the thread that holds the drawn position walks its candidates.
#pragma once

#include <cstdint>

#include "cuda/tiles/row_end.cuh"
#include "cuda/tiles/row_results.cuh"

namespace fairdraw::cuda {

/// A thread's candidates: consecutive ones of its warp's section, read where they are asked for.
struct ListedCandidates {
  const RowEnd& row;
  int begin, end;

  __device__ __forceinline__ static ListedCandidates of(const RowEnd& row) {
    const int count = row.list.count[warp_of_thread()];
    const int share = (count + kWarp - 1) / kWarp;
    const int begin = min(count, lane_of_thread() * share);
    return {row, begin, min(count, begin + share)};
  }

  template <class Visit>
  __device__ __forceinline__ void for_each(std::int32_t lowest, const Visit& visit) const {
    const CandidateList& list = row.list;
    const int warp = warp_of_thread();
#pragma unroll 1
    for (int i = begin; i < end; ++i) {
      const std::int32_t key = list.key[warp][i];
      if (key < lowest) continue;
      const int id = list.id[warp][i];
      visit(key, id, row.index.keys[id / kTileSize]);
    }
  }
};

/// The list holds n values, all that are >= bound; it has been written, with a barrier after it.
/// False where it cannot hold the nucleus.
template <bool kFromProbs>
__device__ __noinline__ bool end_long_list(const RowsTask& task, RowEnd& row, int n,
                                           std::int32_t bound) {
  const RowFilters filters = row.filters;
  const ListedCandidates listed = ListedCandidates::of(row);
  KeySelection selection(row.selection);
  selection.clear();
  sync_end();
  BlockMasses masses(row.masses);
  const RowWeigher<kFromProbs> weigh(row.rule, row.keys.largest);
  CutSearch<kFromProbs> search{selection, masses, weigh, filters, row.keys.largest};
  RowCut cut{bound, filters.vocab};
  if (filters.top_k_on() && n > filters.top_k) cut = search.top_k(listed, bound);
  if (filters.top_p_on()) {
    const uint128_t kept = masses.sum(search.kept_of_thread(listed, cut));
    if (filters.by_row_mass && !filters.top_k_on() &&
        kept < nucleus_target(filters.top_p, filters.row_mass)) {
      return false;
    }
    cut = search.top_p(listed, cut, kept);
  }
  const uint128_t mine = search.kept_of_thread(listed, cut);
  const BlockMasses::Prefix prefix = masses.prefix(mine);
  const uint128_t position = multiply_high(filters.word, prefix.total);
  if (position < prefix.before || position >= prefix.before + mine) return true;
  uint128_t upto = prefix.before;
  int token = -1;
  listed.for_each(cut.low, [&](std::int32_t key, int id, std::int32_t tile_key) {
    if (token >= 0 || !cut.keeps(key, id)) return;
    upto += weigh(from_order_key(key), tile_key);
    if (position < upto) token = id;
  });
  write_drawn(task, row.number, token, row.keys.largest, cut, prefix.total);
  return true;
}

}  // namespace fairdraw::cuda
