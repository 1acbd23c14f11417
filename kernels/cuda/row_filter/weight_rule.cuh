// The integer weight of a value on the device, by the specification's own code.
//
// One value at a time, for kernels in which weights are a small part of the work: exp2fix() for
// logits, two exact scalings for probabilities. The same operations as the CPU's passes, each with
// one rounding (kernels are compiled without contraction).
#pragma once

#include <cstdint>

#include "common/exp2fix.h"

namespace fairdraw::cuda {

struct WeightRule {
  bool from_probs;
  float shift;   ///< the largest allowed logit
  float scale;   ///< logit_scale(T), or the first power of two
  float scale2;  ///< the second power of two

  /// temperature: 0 means 1, as the log-probabilities of greedy rows are defined.
  __device__ static WeightRule of_logits(float max, float temperature) {
    return {false, max, logit_scale(temperature == 0.0F ? 1.0F : temperature), 1.0F};
  }

  /// Two powers of two, because their product may exceed the exponent range: together they bring
  /// the maximum, which is above 0, into [2^39, 2^40).
  __device__ static WeightRule of_probs(float max) {
    constexpr int kLargestShift = 126;
    int exponent = 0;
    frexpf(max, &exponent);  // max in [2^(exponent - 1), 2^exponent)
    const int shift = kWeightBits - exponent;
    const int first = ::min(kLargestShift, ::max(-kLargestShift, shift));
    return {true, 0.0F, ldexpf(1.0F, first), ldexpf(1.0F, shift - first)};
  }

  /// The weight of an allowed value, at most the maximum.
  __device__ std::uint64_t operator()(float x) const {
    if (from_probs) {
      return static_cast<std::uint64_t>(__fmul_rn(__fmul_rn(x, scale), scale2));
    }
    return exp2fix(__fmul_rn(__fsub_rn(x, shift), scale));
  }
};

}  // namespace fairdraw::cuda
