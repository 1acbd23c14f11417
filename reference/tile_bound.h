// How far weights by tiles are from 2^y in real arithmetic, and their distribution from softmax:
// the derivation, and the numbers that the real-number oracle and the documents take from it.
//
// Let y_i = x_i log2(e) / T be a logit in octaves, as a real number, d_i = y_max - y_i >= 0 its
// distance to the row's maximum, and W_i the weight in the row (tile_model.h). There is a number A,
// the same for all tokens of the row, such that
//
//   W_i = A 2^(-d_i) (1 + e_i),   |e_i| <= 2^-22 + 2^-24 ln2 d_i + 2^(d_i - 48),   e_i >= -1.
//
// c is off by one factor for all. c = (1 + t) log2(e) / T, with |t| <= 2^-24 and two roundings of
// double, 2^-52: c is a normal float32, for T in [2^-126, 2^64]. x_i c is exact in double, so it is
// y_i (1 + t), however large x_i is. What remains of t is in the distances alone:
// 2^(x_i c) = 2^(x_max c) 2^(-d_i (1 + t)), a relative error of ln2 |t| d_i. So a row may be
// shifted anywhere, and its tokens are as right as they were: |x| has no term.
//
// The octave and its rest. n is an integer next to x c and x c - n is exact in double. r is that,
// rounded to float32: by at most 2^-26, since |r| <= 1/2, which is ln2 2^-26 of the weight. m is
// 2^r 2^23 up to kSignificandError, by enumeration of every r. Together
// 1.961e-7 + 0.104e-7 < 2.07e-7, and 2^-22 = 2.38e-7: what is left of it, 3e-8, is more than the
// products of errors, which are below 2e-11 up to the 112 octaves that a weight above 0 can be
// below (63 in its tile and 48 of the tile, and one for the rounding of the two octaves).
//
// In the tile, v = floor(m 2^(32 - s)) loses less than one unit, and nothing for s <= 32. The unit
// is 2^(s - 32) / m of the weight. m >= 2^22.5, and s is at most one more than the distance to the
// tile's maximum, because both octaves are rounded by at most 1/2: less than 2^(d - 53.5), a
// fortieth of the term above. Where v is 0 because s >= 64, the distance is at least 63, and the
// term is more than 1.
//
// In the row, a tile counts exactly, or not at all: where its octave is 49 or more below the row's,
// its maximum is at least 48 below in multiples of c, and so is the token. That is
// 48 / (1 + t) >= 48 (1 - |t|) in d, where the term is at least 1 - 48 ln2 |t|; the term before it
// has the rest. So the bound is at least 1 for every token that is lost, and no tile is in it.
//
// The distribution. P_i = 2^(-d_i) / sum is softmax, Q_i = W_i / Z. Their distance in total
// variation is at most the mean of the errors, E_P |e|: let Q' = P (1 + e), whose sum is Q' = 1 +
// g. If g < 0, then Q = Q' / (1 + g) >= Q', and the distance, sum (P - Q)+, is at most sum (P -
// Q')+. Otherwise Q <= Q', and it is sum (Q - P)+ <= sum (Q' - P)+. Each is at most sum P |e|.
// Hence
//
//   distance <= 2^-22 + 2^-24 ln2 E_P d + V 2^-48,
//
// the last because P_i 2^(d_i - 48) = P_max 2^-48. With a = (1 - P_max) / P_max, E_P d is largest
// for V - 1 equal tokens below the maximum (entropy is concave): a / (1 + a) log2((V - 1) / a). Its
// derivative vanishes where ln((V - 1) / a) = 1 + a, that is a e^a = (V - 1) / e, and there it is
// a log2(e). With Lambert's function, a = W0((V - 1) / e),
//
//   distance <= 2^-22 + 2^-24 W0((V - 1) / e) + V 2^-48   for every row of V tokens.
//
// A filter leaves a row of its survivors, of which all of this holds; what a filter keeps is
// another matter. A draw from one word of 64 bits adds at most V 2^-65: a token has W 2^64 / Z
// words, up to one.
//
// Probabilities are integers times a power of two. Nothing is lost within 32 octaves of the row's
// maximum, where s <= 32 and tiles count. In the tile a unit is 2^(N - 55), and the maximum at
// least 2^N (also with subnormals, which share N = -126 and then lose nothing): less than 2^(d -
// 55) of the weight, or all of it for d > 63. A tile does not count where its maximum is below 2^(N
// + 1), N + 49 <= E, and the row's at least 2^E: d > 48. So e_i is in [-min(1, 2^(d_i - 48)), 0], 0
// for d_i <= 32, and the distance is at most V 2^-48.
#pragma once

#include <cstddef>
#include <span>

#include "reference/real_oracle.h"

namespace fairdraw::reference {

/// Largest relative error of octave_significand, as 2^r, over every float32 r: 1.9577e-7, rounded
/// up.
inline constexpr double kSignificandError = 0x1.a5p-23;

/// |e_i| of a token from its distance to the row's maximum, in octaves.
double tile_weight_error(double octaves);
/// The same of a probability. 0: its weight is exact.
double tile_prob_error(double octaves);

/// Distance of a row's distribution to softmax, at most, from every token's distance to the
/// maximum.
double tile_distribution_error(std::span<const double> octaves);
/// Of any row of `vocab` tokens, at most. Below 1e-6 up to kMaxVocab.
double largest_tile_distribution_error(std::size_t vocab);
/// The mean distance to the maximum, in octaves, of the row of `vocab` tokens where it is largest.
double largest_mean_octaves(std::size_t vocab);

/// Of any row of `vocab` probabilities: distance to what they say, at most.
double largest_tile_prob_distribution_error(std::size_t vocab);

/// What a draw from one random word adds to any of these.
double word_distribution_error(std::size_t vocab);

}  // namespace fairdraw::reference
