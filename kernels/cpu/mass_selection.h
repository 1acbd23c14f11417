// The value at which listed values hold a given mass, without sorting: select_threshold of
// selection.h for the weights of tile_weights.h, whose sums have 128 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/host_device.h"
#include "cpu/bracket_passes.h"
#include "cpu/passes.h"
#include "cpu/tile_passes.h"

namespace fairdraw::cpu {

/// How listed values weigh relative to one maximum: all of them at most kTileBits octaves below.
struct NearWeights {
  const Passes* passes;
  const TilePasses* tile_passes;
  const BracketPasses* bracket_passes;
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

/// Buffers of a search, kept between rows.
struct MassScratch {
  std::vector<float> values[2];
  std::vector<std::uint64_t> weights;        ///< of the listed values, by NearWeights::weigh
  std::vector<std::uint64_t> fewer_weights;  ///< of those that a search was cut to
  std::vector<WeighedValue> weighed;         ///< the listed values, where they are not near
};

/// The largest v in [low, high] such that the listed values >= v weigh at least `target` (> 0),
/// where the listed values >= low are taken to weigh that much. No listed value is above `high`;
/// those below `low` do not count. (Where no value lies between two floats, either may be
/// returned: what is kept is the same.) `target` is in the unit of v. The values' weights are in
/// scratch.weights, and stay there.
///
/// Bisection on the float's order key, as in select_threshold; in a long list the first pivots
/// are interpolated, as if `total`, the weight of all values >= low, were spread evenly over
/// [low, high].
float select_near(const float* values, std::size_t n, const NearWeights& near, float low,
                  float high, uint128_t target, uint128_t total, MassScratch& scratch);

/// The same for any weights: the values are those in scratch.weighed, which is used up. Bisection
/// too, the list cut to one side at each step.
float select_weighed(MassScratch& scratch, float low, float high, uint128_t target);

}  // namespace fairdraw::cpu
