// Selection without sorting: the value at which listed values are k, or hold a given mass.
//
// Both are one question. For a measure that adds up over values (a count, or weights), find the
// largest float v such that the values >= v measure at least a target. Keeping the values >= v then
// keeps the k largest with all ties of the k-th, or the smallest nucleus with all ties of the token
// that crosses its mass.
//
// Bisection on the float's order key between values that are there: at most 32 steps, one pass over
// the list each; the list is cut to the bracket after every third, so that the cost is that of a
// few passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/host_device.h"
#include "cpu/passes/passes.h"
#include "cpu/passes/tile_passes.h"

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

// In all of these: the largest v in [low, high] such that the listed values >= v measure at least
// the target, where the listed values >= low are taken to measure that much. No listed value is
// above `high`; those below `low` do not count. Where no value lies between two floats, either may
// be returned: what is kept is the same.

/// The k-th largest value, k >= 1.
float kth_largest(const Passes& passes, const float* values, std::size_t n, float low, float high,
                  std::size_t k, SelectionScratch& scratch);

/// A lower bound of the k-th largest value of a row, not much below it: the k-th largest of the
/// maxima of its groups, each a value of its own. -inf where fewer than k maxima reach `low`.
float bound_of_kth_largest(const Passes& passes, const float* group_max, std::size_t groups,
                           float low, float high, std::size_t k, SelectionScratch& scratch);

/// How listed values weigh relative to one maximum: all of them at most kTileBits octaves below.
struct NearWeights {
  const Passes* passes;
  const TilePasses* tile_passes;
  const TileRule* rule;
  float maximum;

  /// Weights v, 0 below `low`; room for kTileSlack values after the n.
  void weigh(const float* values, std::size_t n, float low, std::uint64_t* weights) const;
  /// Sum of given weights where the value is >= low.
  uint128_t sum(const float* values, const std::uint64_t* weights, std::size_t n, float low) const;
};

/// A value with its weight in the row's unit, where that needs 128 bits.
struct WeighedValue {
  float x;
  uint128_t weight;
};

/// Weights of a list: near ones, by NearWeights::weigh, or the others with their values.
struct ListWeights {
  std::vector<std::uint64_t> near;
  std::vector<WeighedValue> wide;
};

/// Where values of near weights weigh `target` (> 0), in the unit of v; all of them weigh `total`.
/// In a long list the first pivots are interpolated, as if that were spread evenly over the
/// bracket.
float nucleus_end(const NearWeights& near, const float* values, const std::uint64_t* weights,
                  std::size_t n, float low, float high, uint128_t target, uint128_t total,
                  SelectionScratch& scratch);

/// The same for any weights; their order is lost. The list is cut to one side at each step.
float nucleus_end(std::vector<WeighedValue>& weighed, float low, float high, uint128_t target);

}  // namespace fairdraw::cpu
