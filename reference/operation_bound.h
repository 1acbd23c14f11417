// Computes the interval that each result of an operation on a row (softmax, log-softmax, and
// probabilities over the tokens that a filter keeps) must be in, for a sampler that works in
// float32 or better.
//
// u = 2^-24. The errors of roundings and exponentials are those of float32_bound.h: a weight has
// the relative error w = relative_weight_error (of its exponential and of the division by the sum),
// and a sum has the error of its additions, G = relative_sum_error. The bounds are given as
// intervals, because the error of a logarithm is not small at low temperatures.
//
// Weights. In real arithmetic z_i = (x_i - m) / T, where m is the largest logit. The sampler
// computes z_i + t_i with |t_i| <= 3u (|x_i| + |m|) / T + 3u |z_i| (the first term only if it
// scales before it subtracts); if x_i = m, the error t_i is 0, because the sampler then subtracts a
// number from itself. The sampler's value of z_i is never above 0, because rounding keeps the order
// of x_i and m. So the sampler's weight is between
//
//     l_i = exp(z_i - |t_i|) / (1 + w) - f   and   h_i = exp(min(0, z_i + |t_i|)) (1 + w),
//
// Here f is the weight that the sampler may flush to 0: below the smallest normal float32, a weight
// may always be 0. (The integer weights of fairdraw lose less than one unit, 2^-48; tile_bound.h
// has their values of t_i and w.)
//
// Quotients. Let S be the sampler's sum, which is off by a factor in [1 - G, 1 + G]. Result i is
// smallest if its own weight is smallest and all other weights are largest, because w / (w + rest)
// grows with w:
//
//     l_i / (l_i + sum_{j != i} h_j) / (1 + G)   to   h_i / (h_i + sum_{j != i} l_j) / (1 - G).
//
// Last, the result is rounded to its dtype: by half a unit in the last place (a fraction r of the
// value), or by an absolute amount if the result is subnormal (float32 and bfloat16 may flush it to
// 0).
//
// The sum of a row's results is closer to 1 than the sum of the bounds on single results says. All
// results are quotients by the sum of the same weights, so errors of scaling cancel. The remaining
// errors are G, r, and the errors of exponentials that the second pass computes again or rescales
// (2 w, and 3u |z_i| twice). A kernel whose second pass rounds the scaled logits differently from
// its first pass may exceed this bound on the row's sum.
//
// Logarithms. The sampler's ln S is between ln((1 - G) sum l_i) and ln((1 + G) sum h_i), and the
// logarithm's own error is at most 3u of its value (an ulp, and a rounding). The difference z_i is
// rounded once, and so is the result. If the profile allows logits to be scaled first, a result
// x_i - (m + ln S) counts as right too. The sum m + ln S is rounded in units of m, which adds the
// error 2u |m|.
//
// Probabilities p_i divided by their sum over a kept set are the same quotients, with the weights
// p_i (1 +- w).
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
/// be reported as infinite or as this largest value.
double largest_finite(DType dtype);

/// Returns the intervals of softmax(logits / temperature), temperature > 0. `semantics` gives the
/// errors of the sampler's arithmetic, and `bound` the part of the error that grows with the
/// distance to the maximum, as for real_oracle. A logit of -inf has the interval from 0 to 0.
ResultIntervals softmax_intervals(std::span<const float> logits, double temperature,
                                  const Semantics& semantics, const WeightBound& bound,
                                  DType result);

/// Returns the intervals of log_softmax(logits). A logit of -inf has the interval from -inf to
/// -inf.
ResultIntervals log_softmax_intervals(std::span<const float> logits, const Semantics& semantics,
                                      const WeightBound& bound, DType result);

/// Returns the intervals of probs divided by their sum over the kept set, which `kept` [vocab]
/// marks; tokens outside the set have the interval from 0 to 0. With `truncation`, the weights are
/// those of fairdraw's tiles, as for real_oracle_from_probs.
ResultIntervals renorm_intervals(std::span<const float> probs, std::span<const std::uint8_t> kept,
                                 const Semantics& semantics, bool truncation, DType result);

}  // namespace fairdraw::reference
