// Selection without sorting: finds the value such that k listed values are at least as large, or
// such that the values that are at least as large hold a given mass.
//
// The same search handles counts and masses. Given a measure that adds up over values (a count, or
// weights), the search finds the largest float v such that the values >= v have a measure of at
// least a target. The values >= v are then the k largest values with all ties of the k-th, or the
// smallest nucleus with all ties of the token that crosses its mass.
//
// The search bisects on the order keys of floats between listed values, in at most 32 steps, each
// of which is one pass over the list. After every third step, the list is cut to the bracket, so
// that the total cost is that of a few passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/host_device.h"
#include "cpu/passes/passes.h"
#include "cpu/passes/tile_passes.h"

namespace fairdraw::cpu {

/// Length up to which all values of a row are listed, because a guess would cost more than it
/// saves.
inline constexpr std::size_t kShortRow = 4096;

/// Makes room for n values, and for the elements after them that passes overwrite.
template <class T>
void reserve_with_slack(std::vector<T>& values, std::size_t n) {
  if (values.size() < n + kSlack) values.resize(n + kSlack);
}

/// Buffers of a search, which are used again for later rows.
struct SelectionScratch {
  std::vector<float> values[2];
  std::vector<std::uint64_t> weights;
};

// The following functions return the largest v in [low, high] such that the listed values >= v have
// a measure of at least the target. Precondition: the listed values >= low have a measure of at
// least the target, and no value is above `high`. Values below `low` are not counted. If no value
// is between two floats, either of the two may be the result, because both keep the same values.

/// Returns the k-th largest value, where k is at least 1.
float kth_largest(const Passes& passes, const float* values, std::size_t n, float low, float high,
                  std::size_t k, SelectionScratch& scratch);

/// Returns a close lower bound of the k-th largest value of a row: the k-th largest of the maxima
/// of its groups, which are different values of the row. The result is -inf if fewer than k maxima
/// reach `low`.
float bound_of_kth_largest(const Passes& passes, const float* group_max, std::size_t groups,
                           float low, float high, std::size_t k, SelectionScratch& scratch);

/// Weights of listed values relative to a single maximum; all values are at most kTileBits octaves
/// below it.
struct NearWeights {
  const Passes* passes;
  const TilePasses* tile_passes;
  const WeightRule* rule;
  float maximum;

  /// Writes the weights v, with 0 for values below `low`; the array needs room for kTileSlack
  /// values after the n weights.
  void weigh(const float* values, std::size_t n, float low, std::uint64_t* weights) const;
  /// Returns the sum of the given weights over the values >= low.
  uint128_t sum(const float* values, const std::uint64_t* weights, std::size_t n, float low) const;
};

/// Value with its weight in the row's unit, for weights that need 128 bits.
struct WeighedValue {
  float x;
  uint128_t weight;
};

/// Weights of a list, which are either near weights (NearWeights::weigh), or 128-bit weights
/// together with their values.
struct ListWeights {
  std::vector<std::uint64_t> near;
  std::vector<WeighedValue> wide;
};

/// Returns the largest v such that the values >= v, with near weights, weigh at least `target`,
/// which is above 0 and in the unit of near weights; all values together weigh `total`. In a long
/// list, the first pivots are interpolated as if the weight were spread evenly over the bracket.
float nucleus_end(const NearWeights& near, const float* values, const std::uint64_t* weights,
                  std::size_t n, float low, float high, uint128_t target, uint128_t total,
                  SelectionScratch& scratch);

/// Finds the end of a nucleus from weights of 128 bits, and reorders `weighed`. Each step of the
/// search cuts the list to one side of the pivot.
float nucleus_end(std::vector<WeighedValue>& weighed, float low, float high, uint128_t target);

}  // namespace fairdraw::cpu
