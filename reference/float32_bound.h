// This file bounds the distance of a float32 sampler from real arithmetic, for any order of
// additions. The profiles give these bounds to the real-number oracle.
//
// Let u = 2^-24, the largest relative error of one rounding to nearest. For a row of logits x with
// the largest value m, the sampler computes these values:
//
//   s_i = x_i * fl(1 / T) or fl(x_i / T),  z_i = fl(s_i - s_m),  e_i = exp(z_i),
//   S = sum e_i,  p_i = fl(e_i / S),  F = a sum of some of the p_i (or e_i),
//
// The sampler compares F, or p_i, with a threshold.
//
// Weights. The scaled logit s_i has at most two roundings, so the difference z_i is off by 2u
// (|x_i| + |x_m|) / T and by its own rounding, u |z_i|. The oracle allows 3u (|x_i| + |x_m|) / T if
// the profile scales first, and 3u |z_i| in any case (ranked_weights.cpp). An exponential that is
// right to a = exp_ulps ulps, where one ulp is at most 2^-23 = 2u of the value, multiplies the
// weight by 1 + t with |t| <= 2 a u. A result below FLT_MIN may be flushed to zero, which is an
// absolute error of FLT_MIN. The division by the sum S, which is the same for all tokens, adds one
// rounding. So a weight has the relative error (2 a + 1) u, besides the two errors that grow with
// the difference z and the logit x.
//
// Sums. A value that passes through k additions on its way into a sum is multiplied by k factors
// 1 + t with |t| <= u, in any order of additions: that is by 1 + g with |g| <= k u / (1 - k u)
// (Higham, Accuracy and Stability of Numerical Algorithms, 2002, lemma 3.1). The number k is n - 1
// for additions one after another, ceil(log2 n) for a tree, and the sum of these over levels for
// blocks. All terms are positive, so the relative error of a sum is at most |g|. The comparison
// "F < p" has one such sum in the numerator, one (S) in the denominator, one division and one
// rounding of the threshold (1 - p, p S, or u S): 2 k + 2 factors in all, so that
//
//   |computed F / S - F / S| <= g(2 k + 2) F / S + the effect of errors of the weights.
//
// The oracle adds g(2 k + 2) times the row's sum to the error band of top_p; it adds g(2 k + 2)
// times F itself if F is summed from the smallest token on and compared with 1 - p. The file
// real_filters.cpp bounds the effect of the weights. A fused multiply-add has fewer roundings, so
// the bounds also hold for code with fused multiply-adds.
//
// A filter that compares p_i with another probability p_j, or with min_p times p_m, uses two
// weights and one more rounding, so its error is at most twice the error of a weight.
#pragma once

#include <cstddef>

#include "reference/real_oracle.h"
#include "reference/semantics.h"

namespace fairdraw::reference {

/// The known properties of the float32 arithmetic of a sampler.
struct Float32Arithmetic {
  double exp_ulps = 2;        ///< error of exp(), in ulps of the result
  std::size_t additions = 0;  ///< maximum number of additions through which a weight passes on its
                              ///< way into a sum
};

/// The error bound that the oracle adds to weight_error(): the part that grows with the token's
/// distance to the maximum, without truncation.
inline constexpr WeightBound kFloat32Weights = {
    .constant = 0, .per_octave = 3 * 0x1p-24 * 0.69314718055994530942, .truncation = false};

/// Bounds the relative error of a weight, without the parts that grow with the size of the logits.
double weight_error(const Float32Arithmetic& arithmetic);
/// Bounds the error of a sum of weights, as a fraction of the row's sum. Throws
/// std::invalid_argument for 2^22 additions or more, for which the formula gives no useful bound.
double sum_error(const Float32Arithmetic& arithmetic);

/// Return the number of additions on a term's way into a sum of n terms: one after another, in a
/// balanced tree, and in blocks of `block` terms (one after another within each block, then over
/// the blocks). The number is 0 for n = 0.
std::size_t sequential_additions(std::size_t n);
std::size_t tree_additions(std::size_t n);
std::size_t blocked_additions(std::size_t n, std::size_t block);

/// Returns `semantics` with the errors of a sampler that uses this arithmetic and divides logits by
/// the temperature first.
Semantics in_float32(Semantics semantics, const Float32Arithmetic& arithmetic);

/// Bounds the error of the end of a token's interval in [0, 1], for a sampler that draws by
/// inverting prefix sums of its survivors in any order of tokens. The error is the sum of three
/// parts: the distance of the distributions, the rounding of sums, and the rounding of the random
/// word to a float32 in [0, 1) (2^-23 or 2^-24, depending on the conversion). `distribution` is the
/// row's distribution under `semantics`.
double interval_error(const RealDistribution& distribution, const Semantics& semantics);

}  // namespace fairdraw::reference
