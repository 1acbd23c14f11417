// Weight of a token in the test of a draft: relative to the row's largest value alone, an integer
// that a float represents exactly.
//
// Definition (fairdraw/speculative.h). E is the octave of the row's largest allowed value; m and n
// are the token's significand and octave (common/tile_weights.h). The token's weight is P = floor(m
// 2^(16 + n - E)), which is below 2^40 and has at most 24 significant bits, so that a float
// represents it exactly.
//
// Relation of P to weights by tiles. P is the high word of the token's weight W in the row's unit.
// In a tile that is `gap` octaves below the row's, with the token s below the tile's, W = floor(m
// 2^(32 - s)) 2^(48 - gap) and E - n = s + gap, and the floor of a floor's quotient is that of the
// quotient. A token that counts nothing by tiles (s > 63 or gap > 48) has a P below 1. So the high
// word of a row's total, which the row kernel stores, bounds the sum of P from above, and the sum
// is below the high word by less than one per survivor. The largest value's weight is exact, so the
// difference is at most V - 1.
//
// Numerics. Weights of logits use float arithmetic if it is exact relative to the row's maximum
// (float_octaves_are_exact), otherwise double; scalings by powers of two and truncations are exact.
#pragma once

#include <bit>
#include <cstdint>

#include "common/tile_weights.h"

namespace fairdraw::cuda {

/// Number of bits that a weight has below the last bit of m.
inline constexpr int kRelativeBits = 16;
/// Number of octaves below E from which on none of m's 24 bits remains.
inline constexpr int kRelativeOctaves = 24 + kRelativeBits;

/// Lower and upper bound of a row's sum of weights. If the sum is known, both bounds equal it.
struct TotalBounds {
  std::uint64_t low, high;

  __device__ static TotalBounds known(std::uint64_t total) { return {total, total}; }
  /// Returns bounds from the high word of the row's total by tiles.
  __device__ static TotalBounds of_row(std::uint64_t high_word, std::int64_t vocab) {
    const auto lost = static_cast<std::uint64_t>(vocab - 1);
    return {high_word > lost ? high_word - lost : 1, high_word};
  }
  __device__ bool is_known() const { return low == high; }
};

/// Weights of logits that do not exceed the row's largest logit.
class RelativeLogitWeight {
 public:
  __device__ RelativeLogitWeight(float max, float temperature)
      : scale_(logit_scale(temperature)),
        max_(max),
        origin_(std::bit_cast<std::uint32_t>(float_octave_origin(max, scale_))) {}

  /// Returns whether the float function quick() is exact and may be called.
  __device__ bool is_quick() const { return float_octaves_are_exact(max_, scale_); }

  __device__ __forceinline__ float quick(float x) const {
    const FloatOctaves octaves = float_octaves_of(x, scale_);
    const std::uint32_t below = origin_ - std::bit_cast<std::uint32_t>(octaves.origin);
    // m / 2^23, computed from the bits of a value that is larger by 1/2. Beyond kRelativeOctaves
    // the result may be NaN.
    const float power =
        __uint_as_float(octaves.significand + std::bit_cast<std::uint32_t>(0.75F)) - 0.5F;
    const float weight = truncf(power * power_of_two(23 + kRelativeBits, below));
    return below < kRelativeOctaves ? weight : 0.0F;
  }

  /// Returns the weight in double by its definition, for any finite logit.
  __device__ __noinline__ static float slow(float x, float max, float scale) {
    const Octaves octaves = octaves_of(x, scale);
    const double below = octaves_of(max, scale).whole - octaves.whole;
    if (below >= kRelativeOctaves) return 0.0F;
    return truncf(static_cast<float>(octaves.significand) *
                  power_of_two(kRelativeBits, static_cast<std::uint32_t>(below)));
  }
  __device__ float slow(float x) const { return slow(x, max_, scale_); }

 private:
  /// Returns 2^(exponent - below).
  __device__ __forceinline__ static float power_of_two(int exponent, std::uint32_t below) {
    return __uint_as_float((static_cast<std::uint32_t>(127 + exponent) - below) << 23);
  }

  float scale_, max_;
  std::uint32_t origin_;
};

/// Weights of probabilities. m and n are the float's significand and exponent, so the weight is the
/// value times a power of two that is the same for the row. The power of two is applied as two
/// factors, because one factor may exceed the exponent range. The product is inexact only if it is
/// far below 1.
class RelativeProbabilityWeight {
 public:
  __device__ explicit RelativeProbabilityWeight(float max) {
    constexpr int kLargest = 126;
    // m is x 2^(23 - n).
    const int exponent = 23 + kRelativeBits - static_cast<int>(octaves_of_probability(max).whole);
    const int first = min(kLargest, ::max(-kLargest, exponent));
    scale_ = ldexpf(1.0F, first);
    scale2_ = ldexpf(1.0F, exponent - first);
  }
  __device__ __forceinline__ float operator()(float x) const {
    return truncf(__fmul_rn(__fmul_rn(x, scale_), scale2_));
  }

 private:
  float scale_, scale2_;
};

}  // namespace fairdraw::cuda
