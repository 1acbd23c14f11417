// Bounds the distance of weights by tiles from 2^y in real arithmetic, and the distance of their
// distribution from softmax. This comment derives the bounds; the real-number oracle and the
// documents use the numbers.
//
// Let y_i = x_i log2(e) / T be the logit of token i in octaves, as a real number; let d_i = y_max -
// y_i >= 0 be its distance to the row's maximum, and W_i its weight in the row (integer_model.h).
// There is a number A, the same for all tokens of the row, for which this bound holds:
//
//   W_i = A 2^(-d_i) (1 + e_i),   |e_i| <= 2^-22 + 2^-24 ln2 d_i + 2^(d_i - 48),   e_i >= -1.
//
// The scale c is off by the same factor for all tokens: c = (1 + t) log2(e) / T, with |t| <= 2^-24
// and two roundings of double, 2^-52, because c is a normal float32 for T in [2^-126, 2^64]. The
// product x_i c is exact in double, so it equals y_i (1 + t) for any size of x_i. The error t only
// affects distances: 2^(x_i c) = 2^(x_max c) 2^(-d_i (1 + t)), which is a relative error of ln2 |t|
// d_i. So shifting all logits of a row does not change the errors of its tokens, and the bound has
// no term in |x|.
//
// The octave n is an integer next to x c, and x c - n is exact in double. The rest r is this
// difference rounded to float32, with an error of at most 2^-26 because |r| <= 1/2; this changes
// the weight by at most ln2 2^-26 of its value. The significand m is 2^r 2^23 up to
// kSignificandError, by enumeration of every r. Together these errors are 1.961e-7 + 0.104e-7 <
// 2.07e-7, which is below 2^-22 = 2.38e-7. The remaining 3e-8 exceed the products of errors, which
// are below 2e-11 for tokens of weight above 0: such tokens are at most 112 octaves below the
// maximum (63 in the tile, 48 of the tile, and one for the rounding of the two octaves).
//
// In the tile, the weight v = floor(m 2^(32 - s)) loses less than one unit, and loses nothing for
// s <= 32. One unit is 2^(s - 32) / m of the weight. The significand m is at least 2^22.5, and s is
// at most one more than the distance to the tile's maximum, because both octaves are rounded by at
// most 1/2. So the loss is less than 2^(d - 53.5) of the weight, about a fortieth of the term
// 2^(d - 48) above. If v is 0 because s >= 64, the distance d is at least 63, and the term 2^(d -
// 48) is more than 1.
//
// In the row's sum, a tile has either its exact weight or no weight. If the octave of a tile is 49
// or more below the row's, the tile's maximum is at least 48 below the row's in multiples of c, and
// so is every token of the tile. In units of d that distance is 48 / (1 + t) >= 48 (1 - |t|), where
// the term 2^(d - 48) is at least 1 - 48 ln2 |t|; the term 2^-24 ln2 d covers the rest. So the
// bound is at least 1 for every token whose weight is lost, and the bound does not depend on tiles.
//
// The distribution. P_i = 2^(-d_i) / sum is softmax, Q_i = W_i / Z. The three kinds of error move
// probability mass in three steps; all distances are in total variation.
//
// First, the error t is the same for all tokens, and acts like another temperature. Let P(A) be the
// probability of a set A of tokens under distances d (1 + t). The derivative of P(A) by t is -ln2
// times the covariance of d with A, at most ln2 D for any A, where D = E_P |d - E_P d| / 2. So the
// distance is at most 2^-24 ln2 D.
//
// Second, errors within +-h of each weight move the most mass if half of the mass has the error +h
// and half has -h: the mass moved is h / 2.
//
// Third, the mass that is cut off is missing in its tokens, and the rest is only scaled up. The
// mass moved is sum P_i min(1, 2^(d_i - 48)), at most V 2^-48, because P_i = 2^(-d_i) P_max.
//
//   distance <= 2^-23 + 2^-24 ln2 D + sum P_i min(1, 2^(d_i - 48)),
//
// because h / 2 < 1.04e-7 and 2^-23 = 1.19e-7. The remaining 1.5e-8 exceed the interactions of the
// steps: D and the cut-off mass are computed at t = 0, which changes them by |t| E d^2 and by 2e-6
// of their values.
//
// D is largest for rows with two kinds of tokens. Let A be the set of tokens closer to the maximum
// than E d, and let p = P(A). Then D = p (1 - p) (E[d | not A] - E[d | A]). Because d_i =
// log2(P_max / P_i), E[d | not A] is log2(P_max / (1 - p)) plus an entropy of at most log2 V, and
// E[d | A] is at least log2(P_max / p). So D <= p (1 - p) (log2 V + log2(p / (1 - p))), where
// p (1 - p) log2(p / (1 - p)) is at most 0.3231. Hence
//
//   distance <= 2^-23 + 2^-24 ln2 (log2(V) / 4 + 1/3) + V 2^-48   for every row of V tokens,
//
// This bounds the distance by 3.5e-7 for rows of 2^20 tokens, and by 3.1e-7 for 2^17.
//
// After a filter this derivation holds for the row of the surviving tokens; which tokens a filter
// keeps is a separate question. A draw from one random word of 64 bits adds at most V 2^-65 to the
// distance, because a token of weight W gets W 2^64 / Z words, rounded up or down to an integer.
//
// Reported probabilities (IntegerRow::probability) are W'_i / Z, where W'_i is W_i before the two
// shifts cut off bits: W'_i = A 2^(-d_i) (1 + e), with |e| <= 2^-22 + 2^-24 ln2 d_i for any
// distance. Z is A times the sum of 2^(-d_i) (1 + e_i). The relative error of Z is the mean of e_i
// under P, at most 2^-22 + 2^-24 ln2 E d + V 2^-48, and E d = sum P_i log2(P_max / P_i) is at most
// log2 V. So
//
//   W'_i / Z = P_i (1 + f_i),   |f_i| <= 2^-21 + 2^-24 ln2 (d_i + log2 V) + V 2^-48
//
// (the 3e-8 that 2^-22 leaves covers the product of both errors and the roundings of Z and of the
// quotient to double). Rounding the quotient to float32 adds half a unit in the last place. A
// probability that is a normal float32 is at least 2^-126, so d_i is at most 126, and |f_i| is
// below 6.6e-6 for 2^20 tokens.
//
// For rows of probabilities, each probability is an integer times a power of two. A probability
// loses nothing within 32 octaves of the row's maximum, where s <= 32 and the tile counts. One unit
// in the tile is 2^(N - 55), and the tile's maximum is at least 2^N (also with subnormals, which
// share N = -126 and then lose nothing). So a weight loses less than 2^(d - 55) of its value, or
// all of it for d > 63. A tile does not count if N + 49 <= E; its maximum is then below 2^(N + 1)
// and the row's maximum is at least 2^E, so d > 48. So e_i is in [-min(1, 2^(d_i - 48)), 0] and is
// 0 for d_i <= 32, and the distance is at most V 2^-48. For probabilities W'_i is exact, so f_i is
// in [0, V 2^-48] up to two roundings of double.
#pragma once

#include <cstddef>
#include <span>

#include "reference/real_oracle.h"

namespace fairdraw::reference {

/// The largest relative error of octave_significand, as an approximation of 2^r, over every float32
/// r: 1.9577e-7, rounded up.
inline constexpr double kSignificandError = 0x1.a5p-23;

/// The bound on the error |e_i| of a weight is kTileWeights.at(d_i), which the real-number oracle
/// uses by default.
inline constexpr WeightBound kTileWeights = {};

/// Returns the error bound for the weight of a probability, given its distance to the row's maximum
/// in octaves. The result 0 means that the weight is exact.
double tile_prob_error(double octaves);

/// Bounds the distance of a row's distribution from softmax, given the distance of every token to
/// the maximum.
double tile_distribution_error(std::span<const double> octaves);
/// Bounds the distance from softmax for any row of `vocab` tokens.
double largest_tile_distribution_error(std::size_t vocab);

/// Bounds the distance of any row of `vocab` probabilities from the distribution that they define.
double largest_tile_prob_distribution_error(std::size_t vocab);

/// Returns the bound on |f_i|, the relative error of a reported probability of a row of `vocab`
/// tokens before it is rounded to float32, given the token's distance to the row's maximum.
double written_error(double octaves, std::size_t vocab);

/// Bounds the distance that a draw from one random word adds to each of the bounds above.
double word_distribution_error(std::size_t vocab);

}  // namespace fairdraw::reference
