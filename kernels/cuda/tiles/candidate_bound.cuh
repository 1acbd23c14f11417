// Lower bound of the survivors of top_k, computed from the row's index alone. At least k tiles have
// a largest value that is at least the k-th largest of these values, so the k-th largest tile
// maximum is a lower bound of the row's k-th largest value. If k is not small compared with the
// number of tiles, the bound is found from groups of ids (group_keys.cuh) instead, because the
// bound lets through more values if more tiles reach it.
#pragma once

#include <cstdint>

#include "cuda/tiles/candidate_list.cuh"
#include "cuda/tiles/group_keys.cuh"
#include "cuda/tiles/row_weigher.cuh"
#include "cuda/tiles/tile_search.cuh"

namespace fairdraw::cuda {

/// Bounds of one row, which all threads that finish the row find together.
template <bool kFromProbs>
struct CandidateBound {
  /// Inverse of the largest part of the row's tiles, or groups, that may reach a bound for top_k.
  /// If a quarter of the tiles reaches the bound and the values are spread evenly, a tile has 1.15
  /// values on average that reach the bound.
  static constexpr int kOneOf = 4;

  const RowIndex& index;
  const GroupKeys& groups;
  const TileKeys& keys;

  /// Returns a key such that at least k allowed values have keys of at least this size; returns
  /// `lowest` if the index gives no such bound.
  __device__ __forceinline__ std::int32_t of_top_k(TileSearchMemory& memory, int k,
                                                   std::int32_t lowest) const {
    if (k <= index.tiles / kOneOf) {
      if (keys.count < k) return lowest;
      const KeyRange all{keys.smallest, keys.largest, keys.count};
      return search_tile_keys(index, memory, all, k, k / 8).low;
    }
    const int of_row = index.tiles * groups.groups_of_tile();
    if (k > CandidateList::kMax || k > of_row / 2) return lowest;
    // If there are too few pairs of groups, the bound is found from single groups, which have half
    // as many ids and give a tighter bound. If fewer than k groups have allowed values, the search
    // ends at the smallest key, which means that there is no bound.
    const bool in_pairs = k <= of_row / 2 / kOneOf;
    const KeyRange all{GroupCode::kSmallest, GroupCode::of<kFromProbs>(keys.largest), INT_MAX};
    const KeyRange range = PivotSearch(memory).search(
        all, GroupCode::of<kFromProbs>(keys.smallest), k, k / 8,
        [&](const auto& pivot) { return count_groups(pivot, in_pairs); });
    return GroupCode::lower_bound<kFromProbs>(range.low, lowest);
  }

 private:
  /// Counts, for each pivot, the groups of this thread whose keys are at least as large as the
  /// pivot; the counters are float16. The float16 counters are exact up to 2048, and a thread has
  /// at most 16 tiles of 8 words.
  __device__ __forceinline__ PivotCounts count_groups(const std::int32_t (&pivot)[3],
                                                      bool in_pairs) const {
    const __half2 from[3] = {GroupCode::pair_of(pivot[0]), GroupCode::pair_of(pivot[1]),
                             GroupCode::pair_of(pivot[2])};
    __half2 reached[3] = {__float2half2_rn(0.0F), __float2half2_rn(0.0F), __float2half2_rn(0.0F)};
    for_each_tile_of_thread(index, [&](int tile) {
      groups.for_each_word(tile, in_pairs, [&](std::uint32_t word) {
#pragma unroll
        for (int i = 0; i < 3; ++i) {
          reached[i] = __hadd2(reached[i], __hge2(half_pair(word), from[i]));
        }
      });
    });
    const auto number = [&](int i) {
      return static_cast<std::uint32_t>(__low2float(reached[i]) + __high2float(reached[i]));
    };
    return {number(0) | (number(1) << 16), number(2)};
  }
};

}  // namespace fairdraw::cuda
