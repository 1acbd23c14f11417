// Survivors of top_k and top_p in a row, and exact searches for these survivors by a single block.
//
// A cut consists of a threshold on logits and a threshold on the ids of the tokens whose logits
// equal the first threshold. The searches read the list of values in a bracket (bracket_list.cuh).
// For top_k, the keys are counted in levels of bins (key_selection.cuh). For top_p, the masses have
// up to 124 bits, which is too many for additions in shared memory, so the threshold is bisected. A
// bisection takes at most 32 steps for any values, and each step weighs only the tokens that are
// still undecided.
#pragma once

#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/tiles/block_masses.cuh"
#include "cuda/tiles/filter_tiles.h"
#include "cuda/tiles/key_selection.cuh"
#include "cuda/tiles/row_weigher.cuh"

namespace fairdraw::cuda {

/// Filters of a row.
struct RowFilters {
  int vocab;
  std::int32_t top_k;  ///< 0: off
  float top_p;         ///< 1: off
  float min_p;         ///< 0: off
  bool lowest_id;      ///< exactly k tokens stay
  bool by_row_mass;    ///< whether top_p is relative to row_mass; otherwise top_p is relative to
                       ///< the mass that top_k and min_p keep
  uint128_t row_mass;
  std::uint64_t word;

  __device__ bool top_k_on() const { return top_k > 0; }
  __device__ bool top_p_on() const { return top_p < 1.0F; }
  __device__ bool min_p_on() const { return min_p > 0.0F; }
};

/// Survivors of filters: the tokens with keys above `low`, and the tokens with keys equal to `low`
/// and ids below tie_end.
struct RowCut {
  std::int32_t low;
  int tie_end;

  __device__ bool keeps(std::int32_t key, int id) const {
    return key > low || (key == low && id < tie_end);
  }
};

/// Search for a cut among the tokens of a source. source.for_each(lowest, visit) must call
/// visit(key, id, tile_key) for this thread's tokens with key >= lowest, and may call it for other
/// tokens.
template <bool kFromProbs>
struct CutSearch {
  KeySelection& selection;
  BlockMasses& masses;
  const RowWeigher<kFromProbs>& weigh;
  const RowFilters& filters;
  std::int32_t maximum;  ///< the largest key

  /// Returns the cut of top_k among the tokens with keys >= `lowest`.
  template <class Source>
  __device__ RowCut top_k(const Source& source, std::int32_t lowest) {
    const int k = filters.top_k;
    const KeyCut cut = selection.select({lowest, maximum}, k, 0, [&](const auto& count) {
      source.for_each(lowest, [&](std::int32_t key, int, std::int32_t) { count(key, 1); });
    });
    RowCut result{cut.key, filters.vocab};
    if (!filters.lowest_id || cut.reached <= k) return result;
    const KeyCut of_ids =
        selection.select({-filters.vocab, -1}, k - cut.above, 0, [&](const auto& count) {
          source.for_each(cut.key, [&](std::int32_t key, int id, std::int32_t) {
            if (key == cut.key) count(-1 - id, 1);
          });
        });
    result.tie_end = -of_ids.key;
    return result;
  }

  /// Returns the weight of this thread's tokens that a cut keeps.
  template <class Source>
  __device__ uint128_t kept_of_thread(const Source& source, const RowCut& cut) const {
    uint128_t mine = 0;
    source.for_each(cut.low, [&](std::int32_t key, int id, std::int32_t tile_key) {
      if (cut.keeps(key, id)) mine += weigh(from_order_key(key), tile_key);
    });
    return mine;
  }

  /// Returns the largest key in a range such that the tokens whose keys are at least this large
  /// weigh at least `target` together. `above` is the weight of the tokens above the range.
  /// Precondition: the tokens whose keys are at least the range's smallest key weigh at least
  /// `target` together.
  template <class Source>
  __device__ std::int32_t nucleus_end(const Source& source, KeyInterval range, uint128_t above,
                                      uint128_t target) {
#pragma unroll 1
    while (range.low < range.high) {
      const std::uint32_t half =
          (static_cast<std::uint32_t>(range.high) - static_cast<std::uint32_t>(range.low) + 1U) /
          2U;
      const auto middle =
          static_cast<std::int32_t>(static_cast<std::uint32_t>(range.high) - half + 1U);
      uint128_t mine = 0;
      source.for_each(middle, [&](std::int32_t key, int, std::int32_t tile_key) {
        if (key >= middle && key <= range.high) mine += weigh(from_order_key(key), tile_key);
      });
      const uint128_t sum = above + masses.sum(mine);
      if (sum >= target) {
        range.low = middle;
      } else {
        above = sum;
        range.high = middle - 1;
      }
    }
    return range.low;
  }
};

}  // namespace fairdraw::cuda
