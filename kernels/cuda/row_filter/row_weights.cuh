// Weights of values on the device, and their exact sums on the FP64 pipe.
//
// A weight is w = floor(v * 2^40) with v in [0, 1] a float: 2^y for logits (kernels/common/
// exp2fix.h is the specification), a scaled probability for probabilities. An ExactSum starts at
// 4096: there a double's unit in the last place is 2^-40, so adding v toward zero adds exactly w.
// That is two instructions a value (convert, add) where 64-bit integers take nine, and as exact,
// as long as fewer than 4096 weights go into one sum.
#pragma once

#include <cstdint>

#include "common/exp2fix.h"
#include "common/parameters.h"

namespace fairdraw::cuda {

/// A sum of up to 4095 weights.
class ExactSum {
 public:
  __device__ void add(float v) { sum_ = __dadd_rz(sum_, static_cast<double>(v)); }
  __device__ std::uint64_t value() const {
    return static_cast<std::uint64_t>(__double_as_longlong(sum_)) - kZero;
  }

 private:
  static constexpr double kStart = 4096.0;
  static constexpr std::uint64_t kZero = 0x40b0000000000000ULL;  // the bits of 4096.0
  double sum_ = kStart;
};

/// The integer weight of v in [0, 1].
__device__ inline std::uint64_t integer_weight(float v) {
  ExactSum sum;
  sum.add(v);
  return sum.value();
}

/// v of a logit. The same operations in the same order as exp2fix(); floor is an addition that
/// rounds down to where floats are integers, and the exponent is added before the truncation.
///
/// "Octaves" are logarithms to base 2 on a scale that does not depend on the row's maximum: for
/// estimates alone.
struct LogitWeight {
  float scale;      ///< log2(e) / T
  float shift = 0;  ///< the row's largest logit

  /// Log-probabilities of a greedy row with temperature 0 are those at temperature 1.
  __device__ explicit LogitWeight(float temperature)
      : scale(logit_scale(temperature == 0.0F ? 1.0F : temperature)) {}
  __device__ void set_max(float max) { shift = max; }

  __device__ float octave(float x) const { return x * scale; }
  __device__ float value_at(float octave) const { return octave / scale; }

  /// Distance from the maximum, as the specification rounds it.
  __device__ float distance(float x) const { return __fmul_rn(__fsub_rn(x, shift), scale); }

  __device__ float operator()(float x) const {
    return of_distance(fmaxf(distance(x), kSmallestOctave));
  }
  /// The same for x >= lowest, 0 (after truncation) for smaller ones. What is at least `lowest` is
  /// some 50 octaves below the maximum, at most 100 by rounding, and needs no clamp.
  __device__ float operator()(float x, float lowest) const {
    return of_distance(x >= lowest ? distance(x) : kSmallestOctave);
  }

 private:
  __device__ static float of_distance(float y) {
    constexpr float kIntegers = 0x1.8p23F;  // floats near it are integers, also below it
    const float biased = __fadd_rd(y, kIntegers);
    const float fraction = __fsub_rn(y, __fsub_rn(biased, kIntegers));
    const float power = exp2_polynomial(fraction);
    return __uint_as_float(__float_as_uint(power) + (__float_as_uint(biased) << 23));
  }
};

/// v of a probability: scaled by the power of two that brings the row's maximum into [1/2, 1), as
/// two factors, because one may exceed the exponent range. Inexact only far below 2^-40.
struct ProbabilityWeight {
  float scale = 1, scale2 = 1;

  __device__ explicit ProbabilityWeight(float) {}
  __device__ void set_max(float max) {
    constexpr int kLargestShift = 126;
    int exponent = 0;
    frexpf(max, &exponent);  // max in [2^(exponent - 1), 2^exponent)
    const int first = min(kLargestShift, ::max(-kLargestShift, -exponent));
    scale = ldexpf(1.0F, first);
    scale2 = ldexpf(1.0F, -exponent - first);
  }

  __device__ float octave(float x) const { return log2f(x); }
  __device__ float value_at(float octave) const { return exp2f(octave); }

  __device__ float operator()(float x) const { return __fmul_rn(__fmul_rn(x, scale), scale2); }
  __device__ float operator()(float x, float lowest) const {
    return x >= lowest ? (*this)(x) : 0.0F;
  }
};

}  // namespace fairdraw::cuda
