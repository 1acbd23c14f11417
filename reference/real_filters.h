// The filters of the real-number oracle. Each keeps a prefix of the ranking, and knows which
// prefix only up to the error of the sampler and the ties that a profile leaves open.
#pragma once

#include <cstddef>

#include "reference/ranked_weights.h"
#include "reference/semantics.h"

namespace fairdraw::reference {

/// What a filter keeps: every token before `certain`, none from `possible` on, and in exact
/// arithmetic those before `exact`. Between `count_low` and `count_high` of them, which is
/// narrower than [certain, possible] in a tie where it is open which tokens stay, not how many.
struct Cut {
  std::size_t certain = 0, exact = 0, possible = 0;
  std::size_t count_low = 0, count_high = 0;
  long double mass_low = 0, mass_high = 0;  ///< range of the kept mass

  bool open() const { return certain < count_low || count_high < possible; }
};

/// Keeps everything.
Cut whole_row(const RankedWeights& row);

/// Keeps one of the largest. `of_weights`: the maximum is looked for among rounded weights, where
/// more of them may tie, and not among the logits.
Cut greedy_cut(const RankedWeights& row, GreedyTies ties, bool of_weights);

Cut min_p_cut(const RankedWeights& row);

/// k >= 1. `counts_are_open`: of real ties more than k may stay.
Cut top_k_cut(const RankedWeights& row, std::size_t k, TopKTies ties, bool counts_are_open = false);

/// top_p in (0, 1], measured on what `base` keeps; keeps a part of that.
Cut top_p_cut(const RankedWeights& row, const Cut& base, float top_p, const Semantics& semantics);

Cut intersection(const Cut& a, const Cut& b);

}  // namespace fairdraw::reference
