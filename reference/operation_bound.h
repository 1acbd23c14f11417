// Between which numbers the results of an operation on a row lie: softmax, log-softmax, and
// probabilities over what a filter keeps, by a sampler that works in float32 or better.
//
// u = 2^-24, the roundings and exponentials are those of float32_bound.h, with the same numbers: a
// weight has the relative error w = relative_weight_error (its exponential and the division by the
// sum), a sum that of its additions, G = relative_sum_error. Bounds are intervals, since at low
// temperatures an error of the logarithm is no small number.
//
// Weights. z_i = (x_i - m) / T in real arithmetic, m the largest logit. The sampler has z_i + t_i,
// |t_i| <= 3u (|x_i| + |m|) / T + 3u |z_i| (the first where it scales before it subtracts), and
// t_i = 0 where x_i = m: there it subtracts a number from itself. It never has more than 0, as
// rounding keeps the order of x_i and m. So its weight lies between
//
//     l_i = exp(z_i - |t_i|) / (1 + w) - f   and   h_i = exp(min(0, z_i + |t_i|)) (1 + w),
//
// where f is what it may flush: below the smallest normal float32 every weight may be 0.
// (fairdraw's integers drop less than a unit, 2^-48; their t_i and w are those of tile_bound.h.)
//
// Quotients. With S the sampler's sum, off by a factor in [1 - G, 1 + G], result i is least where
// its own weight is least and all others largest, as w / (w + rest) grows with w:
//
//     l_i / (l_i + sum_{j != i} h_j) / (1 + G)   to   h_i / (h_i + sum_{j != i} l_j) / (1 - G).
//
// Then it is rounded to the dtype of the result: by half a unit in the last place, r of the value,
// or by an absolute amount where it is subnormal (flushed, in float32 and bfloat16).
//
// The sum of a row is nearer to 1 than the sum of these bounds. Results are quotients by a sum of
// the same numbers, so that errors of scaling cancel: what is left are G, r, and the exponentials
// where they are computed anew for the second pass or rescaled (2 w, and 3u |z_i| twice). A kernel
// that scales logits by another rounding in its second pass than in its first is not that near.
//
// Logarithms. ln S of the sampler lies between ln((1 - G) sum l_i) and ln((1 + G) sum h_i), and its
// own error is at most 3u of it (an ulp, and a rounding); z_i is rounded once, and so is the
// result. Where the profile lets logits be scaled first, x_i - (m + ln S) counts as right too,
// whose sum in brackets is rounded in units of m: 2u |m| more.
//
// Probabilities p_i over their sum in a kept set are the same quotients with weights p_i (1 +- w).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fairdraw/types.h"
#include "reference/real_oracle.h"
#include "reference/semantics.h"

namespace fairdraw::reference {

/// What a right result may be, token by token, and how far the sum of all of them may be from 1.
struct ResultIntervals {
  std::vector<double> low, high;  ///< [vocab]
  double row_sum = 0;             ///< 0 for log-softmax, which has no sum
};

/// Largest finite value of a dtype: what is beyond it may be infinite, or it.
double largest_finite(DType dtype);

/// Of softmax(logits / temperature), temperature > 0. `semantics` has the slack of its arithmetic,
/// and `bound` what grows with the distance to the maximum, as for real_oracle. -inf: 0 to 0.
ResultIntervals softmax_intervals(std::span<const float> logits, double temperature,
                                  const Semantics& semantics, const WeightBound& bound,
                                  DType result);

/// Of log_softmax(logits). -inf: -inf to -inf.
ResultIntervals log_softmax_intervals(std::span<const float> logits, const Semantics& semantics,
                                      const WeightBound& bound, DType result);

/// Of probs over their sum in the kept set, `kept` [vocab]; 0 to 0 outside. `truncation`: weights
/// are those of fairdraw's tiles, as for real_oracle_from_probs.
ResultIntervals renorm_intervals(std::span<const float> probs, std::span<const std::uint8_t> kept,
                                 const Semantics& semantics, bool truncation, DType result);

}  // namespace fairdraw::reference
