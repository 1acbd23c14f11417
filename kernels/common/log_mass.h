// The normaliser of log-probabilities, the same for every backend.
//
// ln p(x) = (x - M) / T - log_mass, M the row's largest allowed logit and log_mass = ln(Z / W_M):
// the row's mass in units of what M itself weighs. Z has W_M in it, so log_mass is at least 0 and a
// log-probability at most 0; a token that is alone has exactly 0. Z and W_M are each rounded once
// to double, and so is their quotient.
//
// Error: relative to Z the weights are off as tile_weights.h says, and M's own by 1.96e-7 more.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/host_device.h"
#include "common/tile_weights.h"
#include "common/wide_integers.h"

namespace fairdraw {

/// `weight` of a row of logits, or of its survivors, in the row's unit; `max` is M, `scale` c.
FAIRDRAW_HOST_DEVICE inline double log_mass_of(uint128_t weight, float max, float scale) {
  const std::uint64_t significand = octaves_of(max, scale).significand;
  const uint128_t largest = row_weight(significand << kTileBits, kRowBits);
  return std::log(nearest_double(weight) / nearest_double(largest));
}

}  // namespace fairdraw
