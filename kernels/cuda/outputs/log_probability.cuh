// Log-probabilities from integer masses, in double (fairdraw/log_probabilities.h).
#pragma once

#include <cstdint>

#include "common/exp2fix.h"

namespace fairdraw::cuda {

/// ln of a sum of weights in units of the largest one.
__device__ inline double log_mass_of(std::uint64_t weight) {
  return log(static_cast<double>(weight) / static_cast<double>(kLargestWeight));
}

/// (x - max) / divisor - log_mass; the divisor is the temperature, 1 where that is 0.
__device__ inline double log_probability(float x, float max, float divisor, double log_mass) {
  const double distance = static_cast<double>(x) - static_cast<double>(max);
  return __ddiv_rn(distance, static_cast<double>(divisor)) - log_mass;
}

}  // namespace fairdraw::cuda
