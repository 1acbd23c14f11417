// Weight of a token for the test of a draft: an integer relative to the largest value of the row
// alone, which a float represents exactly.
//
// Definition (fairdraw/speculative.h). Let E be the octave of the row's largest allowed value, and
// let m and n be the token's significand and octave (common/tile_weights.h). The weight of the
// token is P = floor(m 2^(16 + n - E)). P is below 2^40 and has at most 24 significant bits, so
// that a float represents it exactly.
//
// Relation of P to the weights by tiles. P is the high word of the token's weight W in the row's
// unit. Let the token's tile be `gap` octaves below the row's octave, and the token s octaves below
// the tile's octave. Then W = floor(m 2^(32 - s)) 2^(48 - gap) and E - n = s + gap. The high word
// of W is P, because the floor of a quotient does not change if its dividend is rounded down to an
// integer first. A token whose weight by tiles is 0 (s > 63 or gap > 48) has a P below 1. So the
// high word of a row's total, which the row kernel stores, is an upper bound of the sum of P, and
// exceeds the sum by less than one per survivor. The weight of the largest value is exact, so the
// difference is at most V - 1.
//
// Numerics. Weights of logits are computed with floats if this is exact relative to the row's
// maximum (float_octaves_are_exact), and otherwise with doubles. Scaling by powers of two and
// truncation are exact.
#pragma once

#include <bit>
#include <cstdint>

#include "common/tile_weights.h"

namespace fairdraw::cuda {

/// Number of bits that a weight keeps below the last bit of m.
inline constexpr int kRelativeBits = 16;
/// Number of octaves below E at which none of the 24 bits of m remains in the weight.
inline constexpr int kRelativeOctaves = 24 + kRelativeBits;

/// Lower and upper bound of the sum of a row's weights. If the sum is known, both bounds are equal
/// to the sum.
struct TotalBounds {
  std::uint64_t low, high;

  __device__ static TotalBounds known(std::uint64_t total) { return {total, total}; }
  /// Returns the bounds that follow from the high word of the row's total by tiles.
  __device__ static TotalBounds of_row(std::uint64_t high_word, std::int64_t vocab) {
    const auto lost = static_cast<std::uint64_t>(vocab - 1);
    return {high_word > lost ? high_word - lost : 1, high_word};
  }
  __device__ bool is_known() const { return low == high; }
};

/// Rule for the weights of logits that do not exceed the row's largest logit.
class RelativeLogitWeight {
 public:
  __device__ RelativeLogitWeight(float max, float temperature)
      : scale_(logit_scale(temperature)),
        max_(max),
        origin_(std::bit_cast<std::uint32_t>(float_octave_origin(max, scale_))) {}

  /// Returns whether quick(), which computes with floats, is exact and may be called.
  __device__ bool is_quick() const { return float_octaves_are_exact(max_, scale_); }

  __device__ __forceinline__ float quick(float x) const {
    const FloatOctaves octaves = float_octaves_of(x, scale_);
    const std::uint32_t below = origin_ - std::bit_cast<std::uint32_t>(octaves.origin);
    // The result is m / 2^23, computed from the bits of a value that is larger by 1/2. If the
    // octave is more than kRelativeOctaves below E, the result may be NaN.
    const float power =
        __uint_as_float(octaves.significand + std::bit_cast<std::uint32_t>(0.75F)) - 0.5F;
    const float weight = truncf(power * power_of_two(23 + kRelativeBits, below));
    return below < kRelativeOctaves ? weight : 0.0F;
  }

  /// Returns the weight by its definition, computed with doubles, for any finite logit.
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

/// Rule for the weights of probabilities. The significand m and the octave n are those of the
/// float, so the weight is the value times a power of two that is the same for the whole row. The
/// power of two is applied as two factors, because a single factor may exceed the range of
/// exponents. The product is rounded only if it is far below 1.
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
