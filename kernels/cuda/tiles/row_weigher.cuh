// Weights of single tokens in the row's unit (common/tile_weights.h), for code that weighs few
// tokens.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "common/tile_weights.h"
#include "cuda/tiles/tile_pass.cuh"

namespace fairdraw::cuda {

/// Weigher of one row's tokens. Octaves of the row and of tiles are computed in double, as in the
/// definition.
template <bool kFromProbs>
class RowWeigher {
 public:
  /// largest: the row's largest key. Octaves are monotone in the value, so E is the octave of the
  /// largest value.
  __device__ RowWeigher(const TileRule& rule, std::int32_t largest)
      : rule_(rule), row_octave_(octave_of(largest)) {}

  /// Returns row_shift of a tile whose largest key is given.
  __device__ int shift_of(std::int32_t tile_key) const {
    return row_shift(row_octave_, octave_of(tile_key));
  }

  /// Weight in the form of its definition: v, and the shift of v into the row's unit.
  struct Shifted {
    std::uint64_t of_tile;
    int shift;  ///< shift of v; -1: the tile counts nothing in the row
  };

  /// Returns the weight of an allowed value in a tile whose largest key is given.
  __device__ Shifted shifted(float x, std::int32_t tile_key) const {
    const int shift = shift_of(tile_key);
    if (shift < 0) return {0, shift};
    const TileWeights<kFromProbs> weights(from_order_key(tile_key), rule_);
    return {weights.are_quick() ? weights.weigh(x) : weights.weigh_slowly(x), shift};
  }
  /// Returns the weight W of an allowed value in the row's unit.
  __device__ uint128_t operator()(float x, std::int32_t tile_key) const {
    const Shifted weight = shifted(x, tile_key);
    return row_weight(weight.of_tile, weight.shift);
  }

 private:
  __device__ double octave_of(std::int32_t key) const {
    const float value = from_order_key(key);
    if constexpr (kFromProbs) return octaves_of_probability(value).whole;
    return octaves_of(value, rule_.scale).whole;
  }

  TileRule rule_;
  double row_octave_;
};

}  // namespace fairdraw::cuda
