// Weight of a token that is tested against a draft: relative to the row's largest value alone, an
// integer that fits into a float.
//
// Definition (fairdraw/speculative.h). E is the octave of the row's largest allowed value, m and n
// are the token's significand and octave (common/tile_weights.h). The token weighs P = floor(m
// 2^(16 + n - E)), which is below 2^40 and has 24 significant bits at most, so that a float has it
// exactly.
//
// Relation to weights by tiles. P is the high word of the token's weight W in the row's unit. In a
// tile that is `gap` octaves below the row's, with the token s below the tile's, W = floor(m 2^(32
// - s)) 2^(48 - gap) and E - n = s + gap, and the floor of a floor's quotient is that of the
// quotient. A token that counts nothing by tiles (s > 63 or gap > 48) is below 1 here. So the high
// word of a row's total, which the row's filtering leaves, bounds the sum of P from above, and the
// sum is below it by less than one per survivor. The largest value loses nothing: V - 1 at most.
//
// Numerics. Logits by float arithmetic if it is exact relative to the row's maximum
// (float_octaves_are_exact), otherwise in double; scalings by powers of two and truncations are
// exact.
#pragma once

#include <bit>
#include <cstdint>

#include "common/tile_weights.h"

namespace fairdraw::cuda {

/// Number of a weight's bits below m's last.
inline constexpr int kRelativeBits = 16;
/// Octaves below E from which none of m's 24 bits is left.
inline constexpr int kRelativeOctaves = 24 + kRelativeBits;

/// Bounds of a row's sum of weights. Both are the sum if it is known.
struct TotalBounds {
  std::uint64_t low, high;

  __device__ static TotalBounds known(std::uint64_t total) { return {total, total}; }
  /// Returns bounds from the high word of the total by tiles.
  __device__ static TotalBounds of_row(std::uint64_t high_word, std::int64_t vocab) {
    const auto lost = static_cast<std::uint64_t>(vocab - 1);
    return {high_word > lost ? high_word - lost : 1, high_word};
  }
  __device__ bool is_known() const { return low == high; }
};

/// Weights of logits that are at most the row's largest one.
class RelativeLogitWeight {
 public:
  __device__ RelativeLogitWeight(float max, float temperature)
      : scale_(logit_scale(temperature)),
        max_(max),
        origin_(std::bit_cast<std::uint32_t>(float_octave_origin(max, scale_))) {}

  /// Returns whether quick() may be called.
  __device__ bool is_quick() const { return float_octaves_are_exact(max_, scale_); }

  __device__ __forceinline__ float quick(float x) const {
    const FloatOctaves octaves = float_octaves_of(x, scale_);
    const std::uint32_t below = origin_ - std::bit_cast<std::uint32_t>(octaves.origin);
    // m / 2^23, from bits of a value 1/2 larger. Beyond the octaves it may be NaN.
    const float power =
        __uint_as_float(octaves.significand + std::bit_cast<std::uint32_t>(0.75F)) - 0.5F;
    const float weight = truncf(power * power_of_two(23 + kRelativeBits, below));
    return below < kRelativeOctaves ? weight : 0.0F;
  }

  /// Returns the weight by definition, for any finite logit.
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

/// Weights of probabilities. m and n are the float's own, so the weight is the value times one
/// power of two, whatever its own octave. The power is two factors, because one may exceed the
/// exponent range. Inexact only far below 1.
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
