// Intervals for the results of an operation on a row (softmax, log-softmax, and probabilities over
// the tokens that a filter keeps) by a sampler that works in float32 or better.
//
// u = 2^-24. Roundings and exponentials are those of float32_bound.h, with the same numbers: a
// weight has the relative error w = relative_weight_error (its exponential and the division by the
// sum), and a sum has the error of its additions, G = relative_sum_error. Bounds are intervals,
// because at low temperatures the error of a logarithm is not small.
//
// Weights. z_i = (x_i - m) / T in real arithmetic, where m is the largest logit. The sampler
// computes z_i + t_i, |t_i| <= 3u (|x_i| + |m|) / T + 3u |z_i| (the first term if it scales before
// it subtracts), and t_i = 0 if x_i = m, because it then subtracts a number from itself. The
// sampler's value is never above 0, because rounding keeps the order of x_i and m. So the weight in
// the sampler is between
//
//     l_i = exp(z_i - |t_i|) / (1 + w) - f   and   h_i = exp(min(0, z_i + |t_i|)) (1 + w),
//
// Here f is the weight that the sampler may flush: below the smallest normal float32 every weight
// may be 0. (fairdraw's integers drop less than a unit, 2^-48; tile_bound.h has their t_i and w.)
//
// Quotients. Let S be the sampler's sum, off by a factor in [1 - G, 1 + G]. Result i is smallest if
// its own weight is smallest and all others are largest, because w / (w + rest) grows with w:
//
//     l_i / (l_i + sum_{j != i} h_j) / (1 + G)   to   h_i / (h_i + sum_{j != i} l_j) / (1 - G).
//
// After this step the result is rounded to its dtype: by half a unit in the last place, r of the
// value, or by an absolute amount if it is subnormal (flushed, in float32 and bfloat16).
//
// The sum of a row is closer to 1 than the sum of these bounds. Results are quotients by a sum of
// the same numbers, so errors of scaling cancel. The remaining errors are G, r, and those of
// exponentials that are computed again or rescaled for the second pass (2 w, and 3u |z_i| twice). A
// kernel whose second pass rounds scaled logits differently from its first is not that close.
//
// Logarithms. ln S of the sampler is between ln((1 - G) sum l_i) and ln((1 + G) sum h_i), and its
// own error is at most 3u of it (an ulp, and a rounding). z_i is rounded once, and so is the
// result. If the profile allows logits to be scaled first, x_i - (m + ln S) counts as right too.
// The sum in brackets is rounded in units of m, which adds 2u |m|.
//
// Probabilities p_i divided by their sum in a kept set are the same quotients with weights p_i (1
// +- w).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fairdraw/types.h"
#include "reference/real_oracle.h"
#include "reference/semantics.h"

namespace fairdraw::reference {

/// The range of right results for each token, and the maximum distance of their sum from 1.
struct ResultIntervals {
  std::vector<double> low, high;  ///< [vocab]
  double row_sum = 0;             ///< 0 for log-softmax, which has no sum
};

/// Returns the largest finite value of a dtype. A right result beyond the largest finite value may
/// be infinite or this value.
double largest_finite(DType dtype);

/// Returns the intervals of softmax(logits / temperature), temperature > 0. `semantics` has the
/// slack of the sampler's arithmetic, and `bound` the part that grows with the distance to the
/// maximum, as for real_oracle. A logit of -inf has the interval from 0 to 0.
ResultIntervals softmax_intervals(std::span<const float> logits, double temperature,
                                  const Semantics& semantics, const WeightBound& bound,
                                  DType result);

/// Returns the intervals of log_softmax(logits). A logit of -inf has the interval from -inf to
/// -inf.
ResultIntervals log_softmax_intervals(std::span<const float> logits, const Semantics& semantics,
                                      const WeightBound& bound, DType result);

/// Returns the intervals of probs over their sum in the kept set, `kept` [vocab]; 0 to 0 outside
/// the set. With `truncation`, weights are computed by fairdraw's tiles, as for
/// real_oracle_from_probs.
ResultIntervals renorm_intervals(std::span<const float> probs, std::span<const std::uint8_t> kept,
                                 const Semantics& semantics, bool truncation, DType result);

}  // namespace fairdraw::reference
