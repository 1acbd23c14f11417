// Computes weights of tiles and of single tokens in the row's unit (common/tile_weights.h).
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "common/tile_weights.h"
#include "cuda/tiles/tile_pass.cuh"

namespace fairdraw::cuda {

/// Octave of a row's largest value, from which the shifts of the row's tiles follow. Octaves are
/// computed as doubles, as in their definition, because this takes no branch for any finite logits.
template <bool kFromProbs>
class RowOctave {
 public:
  /// `largest` is the largest key of the row. Octaves increase with the value, so the octave E of
  /// the row is the octave of the largest value.
  __device__ __forceinline__ RowOctave(float scale, std::int32_t largest)
      : scale_(scale), octave_(octave_of(largest)) {}

  /// Returns row_shift of a tile whose largest key is given, or -1 if the tile weighs nothing in
  /// the row.
  __device__ __forceinline__ int shift_of(std::int32_t tile_key) const {
    return row_shift(octave_, octave_of(tile_key));
  }

 private:
  __device__ __forceinline__ double octave_of(std::int32_t key) const {
    const float value = from_order_key(key);
    if constexpr (kFromProbs) return octaves_of_probability(value).whole;
    return octaves_of(value, scale_).whole;
  }

  float scale_;
  double octave_;
};

/// Returns the weight of a tile, or of a token in the tile, in the row's unit. The function shifts
/// two words instead of one 128-bit number, because shifts of 128 bits are slow on a GPU. `shift`
/// is the result of shift_of.
__device__ __forceinline__ uint128_t shifted_to_row(std::uint64_t of_tile, int shift) {
  if (shift < 0) return 0;
  const auto by = static_cast<std::uint32_t>(shift);  // at most kRowBits, and therefore below 64
  std::uint64_t high = 0;
  asm("shr.u64 %0, %1, %2;" : "=l"(high) : "l"(of_tile), "r"(64U - by));
  return (static_cast<uint128_t>(high) << 64) | (of_tile << by);
}

/// Weigher of one row's tokens.
template <bool kFromProbs>
class RowWeigher {
 public:
  /// `largest` is the largest key of the row.
  __device__ RowWeigher(const TileWeighing& rule, std::int32_t largest)
      : rule_(rule), octave_(rule.scale, largest) {}

  /// Returns row_shift of a tile whose largest key is given.
  __device__ int shift_of(std::int32_t tile_key) const { return octave_.shift_of(tile_key); }

  /// Weight in the form of its definition: the weight v in the tile's unit, and the shift of v into
  /// the row's unit.
  struct Shifted {
    std::uint64_t of_tile;
    int shift;  ///< shift of v, or -1 if the tile weighs nothing in the row
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
    return shifted_to_row(weight.of_tile, weight.shift);
  }

 private:
  TileWeighing rule_;
  RowOctave<kFromProbs> octave_;
};

}  // namespace fairdraw::cuda
