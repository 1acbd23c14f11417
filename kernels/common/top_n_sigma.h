// Arithmetic of top_n_sigma (fairdraw/logits_processing.h), for host and device.
//
// The sums of distances, and the sums of the two halves of their squares, are below 2^52 for any
// vocabulary, so they may be added in any order. The other operations are those of IEEE doubles
// with one rounding each; no product is followed by a sum that a compiler could fuse with it.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/host_device.h"
#include "common/wide_integers.h"

namespace fairdraw {

FAIRDRAW_HOST_DEVICE inline bool is_top_n_sigma(float n) { return n >= 0.0F || n == -1.0F; }

FAIRDRAW_HOST_DEVICE inline bool top_n_sigma_is_on(float n) {
  return n > 0.0F && n <= 0x1.fffffep127F;
}

inline constexpr double kSigmaSteps = 0x1p20;  ///< number of steps per unit of a logit
inline constexpr double kMaxSigmaSteps = 0x1p31 - 1;

/// Returns the distance of x from the largest logit as a number of steps, not yet rounded.
FAIRDRAW_HOST_DEVICE inline double steps_below(float largest, float x) {
  return (static_cast<double>(largest) - static_cast<double>(x)) * kSigmaSteps;
}

/// Sums over the tokens that are still allowed.
struct SigmaSums {
  std::uint64_t tokens = 0, distances = 0;
  std::uint64_t low = 0, high = 0;  ///< halves of squares

  FAIRDRAW_HOST_DEVICE void add(float largest, float x) {
    const double steps = steps_below(largest, x);
    const std::uint64_t q = static_cast<std::uint32_t>(
        static_cast<std::int32_t>(steps < kMaxSigmaSteps ? steps : kMaxSigmaSteps));
    const std::uint64_t square = q * q;
    ++tokens;
    distances += q;
    low += square & 0xffffffffU;
    high += square >> 32;
  }

  /// Returns the exclusive upper bound of steps_below() for tokens that are kept, or +inf if all
  /// tokens are kept.
  FAIRDRAW_HOST_DEVICE double bound(float n) const {
    const uint128_t squares = (static_cast<uint128_t>(high) << 32) + low;
    const uint128_t spread = squares * tokens - static_cast<uint128_t>(distances) * distances;
    const double most =
        static_cast<double>(n) * std::sqrt(nearest_double(spread)) / static_cast<double>(tokens);
    return most < kMaxSigmaSteps ? std::floor(most) + 1.0 : HUGE_VAL;
  }
};

}  // namespace fairdraw
