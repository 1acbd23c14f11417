// How far a sampler that works in float32 may be from real arithmetic, whatever the order in which
// it adds up. The bounds that the profiles hand to the real-number oracle.
//
// Let u = 2^-24, the largest relative error of one rounding to nearest. The sampler computes, for a
// row of logits x with largest value m,
//
//   s_i = x_i * fl(1 / T) or fl(x_i / T),  z_i = fl(s_i - s_m),  e_i = exp(z_i),
//   S = sum e_i,  p_i = fl(e_i / S),  F = a sum of some of the p_i (or e_i),
//
// and compares F, or p_i, with a threshold.
//
// Weights. s_i has at most two roundings, so z_i is off by 2u (|x_i| + |x_m|) / T and a rounding of
// its own, u |z_i|: the oracle has 3u (|x_i| + |x_m|) / T where the profile scales first, and 3u
// |z_i| in any case (ranked_weights.cpp). An exponential right to a ulp, one ulp being at most
// 2^-23 = 2u of the value, multiplies by 1 + t, |t| <= 2 a u; below FLT_MIN the result may be
// flushed, an absolute error of FLT_MIN. Dividing by S, the same for all, rounds once more. So a
// weight has the relative error (2 a + 1) u besides the two that grow with z and x.
//
// Sums. A value that goes through k additions on its way into a sum, in whatever order (k is n - 1
// one after another, ceil(log2 n) in a tree, their sum over levels in blocks), is multiplied by
// factors 1 + t, |t| <= u, k of them: by 1 + g, |g| <= k u / (1 - k u) (Higham, Accuracy and
// Stability of Numerical Algorithms, 2002, lemma 3.1). All terms are positive, so a sum is off by
// no more than that part of itself. The comparison "F < p" has such a sum above, one below (S), one
// division and one rounding of the threshold (1 - p, p S, or u S): 2 k + 2 factors in all, so that
//
//   |computed F / S - F / S| <= g(2 k + 2) F / S + what the errors of the weights do,
//
// and g(2 k + 2) of the row's sum is what the oracle adds to the band of top_p; of F itself where F
// is summed from the smallest token on and compared with 1 - p. real_filters.cpp says what the
// weights do to it. Multiples by a fused multiply-add have fewer roundings.
//
// A filter that compares p_i with another p_j, or with min_p p_m, sees two weights and one more
// rounding: at most twice the error of a weight.
#pragma once

#include <cstddef>

#include "reference/real_oracle.h"
#include "reference/semantics.h"

namespace fairdraw::reference {

/// What is known of a sampler's float32 arithmetic.
struct Float32Arithmetic {
  double exp_ulps = 2;        ///< error of its exponential, in ulps of the result
  std::size_t additions = 0;  ///< most additions on the way of a weight into a sum
};

/// What the oracle adds to weight_error(): the part that grows with the distance to the maximum,
/// and no truncation.
inline constexpr WeightBound kFloat32Weights = {
    .constant = 0, .per_octave = 3 * 0x1p-24 * 0.69314718055994530942, .truncation = false};

/// Bound on the relative error of a weight, besides what grows with the size of the logits.
double weight_error(const Float32Arithmetic& arithmetic);
/// Bound on the error of a mass, as a fraction of the row's sum. Throws std::invalid_argument for
/// 2^22 additions or more, where the bound says nothing.
double sum_error(const Float32Arithmetic& arithmetic);

/// Additions of n terms one after another, in a balanced tree, and in blocks of `block` terms that
/// are added up one after another, inside and then over all blocks. 0 for n = 0.
std::size_t sequential_additions(std::size_t n);
std::size_t tree_additions(std::size_t n);
std::size_t blocked_additions(std::size_t n, std::size_t block);

/// `semantics` as a sampler with this arithmetic follows it, logits divided by the temperature
/// first.
Semantics in_float32(Semantics semantics, const Float32Arithmetic& arithmetic);

/// How far a sampler within the bounds may put the end of a token's interval in [0, 1] that
/// inverts the prefix sums of its survivors, in any order of tokens: the distance of the
/// distributions, the rounding of sums, and that of the random word to a float32 in [0, 1) (2^-23,
/// or one part in 2^24, by the way it is made). `distribution` under `semantics`.
double interval_error(const RealDistribution& distribution, const Semantics& semantics);

}  // namespace fairdraw::reference
