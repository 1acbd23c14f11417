// Normaliser of log-probabilities, which is the same for every backend.
//
// The log-probability is ln p(x) = (x - M) / T - log_mass. Here M is the largest allowed logit of
// the row, and log_mass = ln(Z / W_M) is the row's mass in units of the weight of M. Z includes
// W_M, so log_mass is at least 0 and a log-probability at most 0. If the row has only one token,
// the token's log-probability is exactly 0. Z, W_M and their quotient are each rounded to double
// once.
//
// Error: the weights relative to Z have the error that tile_weights.h states, and the weight of M
// itself adds 1.96e-7.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/host_device.h"
#include "common/tile_weights.h"
#include "common/wide_integers.h"

namespace fairdraw {

/// Returns log_mass. `weight` is the sum of the weights of a row of logits, or of its survivors, in
/// the row's unit; `max` is M, and `scale` is c = log2(e) / T.
FAIRDRAW_HOST_DEVICE inline double log_mass_of(uint128_t weight, float max, float scale) {
  const std::uint64_t significand = octaves_of(max, scale).significand;
  const uint128_t largest = row_weight(significand << kTileBits, kRowBits);
  return std::log(nearest_double(weight) / nearest_double(largest));
}

}  // namespace fairdraw
