// Selection without sorting: the value from which on listed values number k, or hold a given mass.
//
// Counts and masses are handled by the same search. For a measure that adds up over values (a
// count, or weights), find the largest float v such that the values >= v measure at least a target.
// The values >= v are then the k largest with all ties of the k-th, or the smallest nucleus with
// all ties of the token that crosses its mass.
//
// The search bisects on the float's order key between listed values, in at most 32 steps of one
// pass over the list. After every third step the list is cut to the bracket, so that the total cost
// is that of a few passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/host_device.h"
#include "cpu/passes/passes.h"
#include "cpu/passes/tile_passes.h"

namespace fairdraw::cpu {

/// Length up to which rows are listed completely, because a guess would cost more than it saves.
inline constexpr std::size_t kShortRow = 4096;

/// Makes room for n values and for the elements that passes overwrite after them.
template <class T>
void reserve_with_slack(std::vector<T>& values, std::size_t n) {
  if (values.size() < n + kSlack) values.resize(n + kSlack);
}

/// Buffers of a search, reused for later rows.
struct SelectionScratch {
  std::vector<float> values[2];
  std::vector<std::uint64_t> weights;
};

// These functions return the largest v in [low, high] such that the listed values >= v measure at
// least the target. Precondition: the listed values >= low measure at least the target, and none is
// above `high`. Values below `low` do not count. If no value lies between two floats, either may be
// returned, because both keep the same values.

/// Returns the k-th largest value, k >= 1.
float kth_largest(const Passes& passes, const float* values, std::size_t n, float low, float high,
                  std::size_t k, SelectionScratch& scratch);

/// Returns a close lower bound of a row's k-th largest value: the k-th largest of the maxima of its
/// groups, which are different values of the row. -inf if fewer than k maxima reach `low`.
float bound_of_kth_largest(const Passes& passes, const float* group_max, std::size_t groups,
                           float low, float high, std::size_t k, SelectionScratch& scratch);

/// Weights of listed values relative to one maximum, all at most kTileBits octaves below it.
struct NearWeights {
  const Passes* passes;
  const TilePasses* tile_passes;
  const TileRule* rule;
  float maximum;

  /// Writes weights v, 0 for values below `low`; needs room for kTileSlack values after the n
  /// weights.
  void weigh(const float* values, std::size_t n, float low, std::uint64_t* weights) const;
  /// Returns the sum of the given weights of values >= low.
  uint128_t sum(const float* values, const std::uint64_t* weights, std::size_t n, float low) const;
};

/// A value and its weight in the row's unit, for weights that need 128 bits.
struct WeighedValue {
  float x;
  uint128_t weight;
};

/// Weights of a list: either near weights, by NearWeights::weigh, or 128-bit weights with their
/// values.
struct ListWeights {
  std::vector<std::uint64_t> near;
  std::vector<WeighedValue> wide;
};

/// Returns the largest v such that the values >= v, with near weights, weigh at least `target` (>
/// 0), in the unit of v; all values together weigh `total`. In a long list the first pivots are
/// interpolated, as if the weight were spread evenly over the bracket.
float nucleus_end(const NearWeights& near, const float* values, const std::uint64_t* weights,
                  std::size_t n, float low, float high, uint128_t target, uint128_t total,
                  SelectionScratch& scratch);

/// Finds the end of a nucleus for weights of 128 bits; reorders `weighed`. The list is cut to one
/// side at each step.
float nucleus_end(std::vector<WeighedValue>& weighed, float low, float high, uint128_t target);

}  // namespace fairdraw::cpu
