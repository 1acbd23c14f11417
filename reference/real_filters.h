// Declares the filters of the real-number oracle. Each filter keeps a prefix of the ranking. The
// length of the prefix is known up to the error of the sampler and the ties that a profile leaves
// open.
#pragma once

#include <cstddef>

#include "reference/ranked_weights.h"
#include "reference/semantics.h"

namespace fairdraw::reference {

/// The result of a filter: which prefix of the ranking it keeps. A filter keeps every token before
/// `certain` and none from `possible` on; in exact arithmetic it keeps those before `exact`. The
/// number of kept tokens is between `count_low` and `count_high`; this range is narrower than
/// [certain, possible] if the number of kept tokens in a tie is known, but not which.
struct Cut {
  std::size_t certain = 0, exact = 0, possible = 0;
  std::size_t count_low = 0, count_high = 0;
  long double mass_low = 0, mass_high = 0;  ///< range of the mass of the kept tokens

  bool open() const { return certain < count_low || count_high < possible; }
};

/// Keeps all tokens.
Cut whole_row(const RankedWeights& row);

/// Returns the cut that keeps one of the largest tokens. With `of_weights`, the maximum is searched
/// among rounded weights instead of among the logits, so that more tokens may tie.
Cut greedy_cut(const RankedWeights& row, GreedyTies ties, bool of_weights);

Cut min_p_cut(const RankedWeights& row);

/// Applies top_k, k >= 1. With `counts_are_open`, the filter may keep more than k tokens if real
/// ties end at k.
Cut top_k_cut(const RankedWeights& row, std::size_t k, TopKTies ties, bool counts_are_open = false);

/// Applies top_p in (0, 1]. Top_p refers to the mass of the tokens that `base` keeps, and keeps a
/// part of these tokens.
Cut top_p_cut(const RankedWeights& row, const Cut& base, float top_p, const Semantics& semantics);

Cut intersection(const Cut& a, const Cut& b);

}  // namespace fairdraw::reference
