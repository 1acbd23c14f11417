// Selection without sorting: the value at which a row holds k tokens, or a given mass.
//
// Both are one question. For a measure that adds up over values (a count, or a weight that is a
// function of the value), find the largest float v such that the values >= v measure at least
// `target`. Keeping the values >= v then keeps the k largest with all ties of the k-th, or the
// smallest nucleus with all ties of the token that crosses its mass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/passes.h"

namespace fairdraw::cpu {

/// Rows up to this length are listed whole: a guess would cost more than it saves.
inline constexpr std::size_t kShortRow = 4096;

/// Room for n values and for what passes overwrite after them.
template <class T>
void reserve_with_slack(std::vector<T>& values, std::size_t n) {
  if (values.size() < n + kSlack) values.resize(n + kSlack);
}

/// Buffers of a search, kept between rows.
struct SelectionScratch {
  std::vector<float> values[2];
  std::vector<std::uint64_t> weights;
};

/// A measure of values: how many, or how much weight.
struct Measure {
  const Passes* passes;
  const WeightRule* rule;  ///< null: count
};

/// The largest v in [low, high] such that the measure of listed values >= v is at least `target`,
/// where the listed values >= low are taken to measure that much. No listed value is above
/// `high`; those below `low` do not count. (Where no value lies between two floats, either may
/// be returned: what is kept is the same.)
///
/// Bisection on the float's order key: at most 32 steps, one pass over the list each; the list is
/// cut to the bracket after every third, so that the cost is that of a few passes.
float select_threshold(const float* values, std::size_t n, const Measure& measure, float low,
                       float high, std::uint64_t target, SelectionScratch& scratch);

/// A lower bound, not much below, of the k-th largest value: the largest float found such that at
/// least k of the given group maxima are at or above it (each maximum is a value of its own).
/// -inf where fewer than k maxima reach `low`.
float bound_of_kth_largest(const float* group_max, std::size_t groups, const Passes& passes,
                           std::size_t k, float low, float high);

}  // namespace fairdraw::cpu
