// Computes the reported log-probabilities of a row whose state is known.
#pragma once

#include <cfloat>

#include "common/log_mass.h"
#include "common/parameters.h"
#include "cuda/rows/filtered_row.cuh"
#include "cuda/sharded/sharded_task.h"

namespace fairdraw::cuda {

/// Returns the logarithm of the survivors' weight, or 0 for a greedy row.
__device__ inline double filtered_log_mass(const RowParameters& parameters,
                                           const ShardedRowState& state) {
  if (is_greedy(parameters)) return 0.0;
  return log_mass_of(state.survivors.value(), state.max, state.scale);
}

/// Returns the reported value of a token (fairdraw/log_probabilities.h). The token must have a
/// reported value, and x is the value of the token, or the caller's value in raw modes.
__device__ inline float reported_value(LogprobsMode mode, const RowParameters& parameters,
                                       const ShardedRowState& state, float x) {
  const float divisor = parameters.temperature == 0.0F ? 1.0F : parameters.temperature;
  if (mode == LogprobsMode::raw_logits) return x;
  if (mode == LogprobsMode::processed_logits) {
    return fmaxf(-FLT_MAX, fminf(FLT_MAX, __fdiv_rn(x, divisor)));
  }
  double value = 0;
  if (mode == LogprobsMode::raw_logprobs) {
    value = log_probability(x, state.raw_max, 1.0F,
                            log_mass_of(state.raw.value(), state.raw_max, logit_scale(1.0F)));
  } else {
    value = log_probability(x, state.max, divisor, filtered_log_mass(parameters, state));
  }
  // The value -inf is reserved for tokens without a reported value.
  return static_cast<float>(fmax(-static_cast<double>(FLT_MAX), value));
}

}  // namespace fairdraw::cuda
