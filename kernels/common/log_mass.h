// The normaliser of log-probabilities, the same for every backend.
//
// ln p(x) = (x - M) / T - log_mass, where M is the row's largest allowed logit and
// log_mass = ln(Z / W_M) is the row's mass in units of M's own weight. Z includes W_M, so log_mass
// is at least 0 and a log-probability at most 0; for a row's only token it is exactly 0. Z, W_M and
// their quotient are each rounded once to double.
//
// Error: weights relative to Z have the error that tile_weights.h states, and M's own weight
// 1.96e-7 more.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/host_device.h"
#include "common/tile_weights.h"
#include "common/wide_integers.h"

namespace fairdraw {

/// Returns log_mass. `weight` is the sum of weights of a row of logits or of its survivors, in the
/// row's unit; `max` is M and `scale` is c.
FAIRDRAW_HOST_DEVICE inline double log_mass_of(uint128_t weight, float max, float scale) {
  const std::uint64_t significand = octaves_of(max, scale).significand;
  const uint128_t largest = row_weight(significand << kTileBits, kRowBits);
  return std::log(nearest_double(weight) / nearest_double(largest));
}

}  // namespace fairdraw
