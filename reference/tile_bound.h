// Bounds on the distance of weights by tiles from 2^y in real arithmetic, and of their distribution
// from softmax: the derivation, and the numbers that the real-number oracle and the documents use.
//
// Let y_i = x_i log2(e) / T be a logit in octaves, as a real number, d_i = y_max - y_i >= 0 its
// distance to the row's maximum, and W_i the weight in the row (integer_model.h). There is a number
// A, the same for all tokens of the row, such that
//
//   W_i = A 2^(-d_i) (1 + e_i),   |e_i| <= 2^-22 + 2^-24 ln2 d_i + 2^(d_i - 48),   e_i >= -1.
//
// The scale c is off by the same factor for all tokens. c = (1 + t) log2(e) / T, with |t| <= 2^-24
// and two roundings of double, 2^-52, because c is a normal float32 for T in [2^-126, 2^64]. x_i c
// is exact in double, so it is y_i (1 + t) for any size of x_i. t only has an effect on distances:
// 2^(x_i c) = 2^(x_max c) 2^(-d_i (1 + t)), a relative error of ln2 |t| d_i. So shifting a row does
// not change the errors of its tokens, and there is no term in |x|.
//
// The octave and its rest. n is an integer next to x c and x c - n is exact in double. r is that
// difference rounded to float32, by at most 2^-26 because |r| <= 1/2; this is ln2 2^-26 of the
// weight. m is 2^r 2^23 up to kSignificandError, by enumeration of every r. Together these errors
// are 1.961e-7 + 0.104e-7 < 2.07e-7, and 2^-22 = 2.38e-7. The remaining 3e-8 exceed the products of
// errors, which are below 2e-11 up to the 112 octaves that a weight above 0 can be below (63 in its
// tile, 48 of the tile, and one for the rounding of the two octaves).
//
// In the tile, the weight v = floor(m 2^(32 - s)) loses less than one unit, and nothing for s <=
// 32. The unit is 2^(s - 32) / m of the weight. m >= 2^22.5, and s is at most one more than the
// distance to the tile's maximum, because both octaves are rounded by at most 1/2. So the loss is
// less than 2^(d - 53.5), a fortieth of the term above. If v is 0 because s >= 64, the distance is
// at least 63, and the term is more than 1.
//
// In the row, a tile counts exactly or not at all. If the octave of a tile is 49 or more below the
// row's, its maximum is at least 48 below in multiples of c, and so is the token. That distance is
// 48 / (1 + t) >= 48 (1 - |t|) in d, where the term is at least 1 - 48 ln2 |t|; the term before it
// covers the rest. So the bound is at least 1 for every token that is lost, and it does not depend
// on tiles.
//
// The distribution. P_i = 2^(-d_i) / sum is softmax, Q_i = W_i / Z. The three kinds of error move
// mass in three steps; distances are in total variation.
//
// 1. t is the same for all tokens, like another temperature. A set A of tokens has P(A) under
//    distances d (1 + t). Its derivative by t is -ln2 times the covariance of d with A, at most
//    ln2 D for any A, D = E_P |d - E_P d| / 2. So the distance is at most 2^-24 ln2 D.
// 2. Errors within +-h of each weight move most if half of the mass has +h and half -h: h / 2.
// 3. The mass that is cut off is missing in its tokens, and the rest is only scaled up:
//    sum P_i min(1, 2^(d_i - 48)), at most V 2^-48, because P_i = 2^(-d_i) P_max.
//
//   distance <= 2^-23 + 2^-24 ln2 D + sum P_i min(1, 2^(d_i - 48)),
//
// because h / 2 < 1.04e-7 and 2^-23 = 1.19e-7. The remaining 1.5e-8 exceed the interactions of the
// steps: D and the cut are taken at t = 0, which is off by |t| E d^2 and by 2e-6 of themselves.
//
// D is largest for rows with two kinds of tokens. Let A be the tokens closer to the maximum than E
// d, p = P(A). Then D = p (1 - p) (E[d | not A] - E[d | A]). d_i = log2(P_max / P_i), so E[d | not
// A] is log2(P_max / (1 - p)) plus an entropy, at most log2 V, and E[d | A] is at least log2(P_max
// / p). D <= p (1 - p) (log2 V + log2(p / (1 - p))), and p (1 - p) log2(p / (1 - p)) is at most
// 0.3231. Hence
//
//   distance <= 2^-23 + 2^-24 ln2 (log2(V) / 4 + 1/3) + V 2^-48   for every row of V tokens,
//
// The result bounds D by 3.5e-7 for 2^20 tokens, and 3.1e-7 for 2^17.
//
// After a filter this derivation holds for the row of its survivors; which tokens a filter keeps is
// a separate question. A draw from one word of 64 bits adds at most V 2^-65, because a token has W
// 2^64 / Z words, up to one.
//
// Written probabilities (IntegerRow::probability) are W'_i / Z, where W'_i is W_i before the two
// shifts cut off bits: A 2^(-d_i) (1 + e), |e| <= 2^-22 + 2^-24 ln2 d_i, for any distance. Z is A
// times the sum of 2^(-d_i) (1 + e_i). Its relative error is the mean of e_i under P, at most 2^-22
// + 2^-24 ln2 E d + V 2^-48, and E d = sum P_i log2(P_max / P_i) is at most log2 V. So
//
//   W'_i / Z = P_i (1 + f_i),   |f_i| <= 2^-21 + 2^-24 ln2 (d_i + log2 V) + V 2^-48
//
// (the 3e-8 that 2^-22 leaves covers the product of both errors and the roundings of Z and of the
// quotient to double). Rounding to float32 adds half a unit in the last place. A normal
// probability is at least 2^-126, so d_i is at most 126, and |f_i| below 6.6e-6 for 2^20 tokens.
//
// Probabilities are integers times a power of two. Nothing of a probability is lost within 32
// octaves of the row's maximum, where s <= 32 and tiles count. In the tile a unit is 2^(N - 55),
// and the maximum at least 2^N (also with subnormals, which share N = -126 and then lose nothing).
// The loss is less than 2^(d - 55) of the weight, or all of it for d > 63. A tile does not count if
// its maximum is below 2^(N + 1), N + 49 <= E, and the row's is at least 2^E: d > 48. So e_i is in
// [-min(1, 2^(d_i - 48)), 0], 0 for d_i <= 32, and the distance is at most V 2^-48. W'_i is exact
// for probabilities, so f_i is in [0, V 2^-48] but for two roundings of double.
#pragma once

#include <cstddef>
#include <span>

#include "reference/real_oracle.h"

namespace fairdraw::reference {

/// Largest relative error of octave_significand, as 2^r, over every float32 r: 1.9577e-7, rounded
/// up.
inline constexpr double kSignificandError = 0x1.a5p-23;

/// The bound on |e_i|, kTileWeights.at(d_i): the real-number oracle's default.
inline constexpr WeightBound kTileWeights = {};

/// Returns the bound for a probability, from its distance to the row's maximum. 0 means that its
/// weight is exact.
double tile_prob_error(double octaves);

/// Bounds the distance of a row's distribution from softmax, from every token's distance to the
/// maximum.
double tile_distribution_error(std::span<const double> octaves);
/// Bounds the distance from softmax for any row of `vocab` tokens.
double largest_tile_distribution_error(std::size_t vocab);

/// Bounds the distance of any row of `vocab` probabilities from the distribution that they define.
double largest_tile_prob_distribution_error(std::size_t vocab);

/// Returns the bound on |f_i|, the relative error of a written probability of a row of `vocab`
/// tokens before it is rounded to float32, from its distance to the row's maximum.
double written_error(double octaves, std::size_t vocab);

/// Bounds the distance that a draw from one random word adds to any of these bounds.
double word_distribution_error(std::size_t vocab);

}  // namespace fairdraw::reference
