// Watermarks: tokens that a key chooses, and the detector that finds them in plain token ids.
//
// There are three schemes, all by keyed words of the last tokens (Kirchenbauer et al. 2023).
//   race        The words race among the survivors of the filters (the Gumbel watermark: Aaronson
//               2022). For one key and one context the token is a function of the row's survivors.
//               Over random keys the token is distributed as the unmarked one. Everything is an
//               integer: the same token and the same words everywhere.
//   tournament  The words' bits change the survivors' probabilities, layer by layer, and the
//               request's own random word draws (SynthID, Dathathri et al. 2024, with two
//               candidates per match). Over random keys and random words of the request the token
//               is distributed as the unmarked one.
//   green_list  The words make tokens green, whose logits are raised (Kirchenbauer et al. 2023).
//               The marked distribution differs from the unmarked one.
//
// Definition of the words, and of the race.
//   context  The context is the last `window` ids that the request has generated
//            (LogitsProcessing::output). Ids of -1 stand before the first one.
//   word     B(k, c) is the block of Threefry2x32-20 of key k and counter c, 64 bits each, low word
//            first. s_0 = B(key, window), then s_i = B(s_(i-1), id_i + 1) for the ids of the
//            context, oldest first. The word of token v is u_v = B(s_window, v).
//   arrival  L(u) is -log2((2u + 1) / 2^65) in units of 2^-64, by this algorithm. z = 2u + 1, e the
//            place of its highest bit, x = z 2^(127 - e). Each of 64 steps computes y = floor(x^2 /
//            2^128) and gives one binary digit: 1 if y >= 2^127, then x = y; otherwise 0, and x =
//            2y. D is the number that has these digits, the first one the highest. L(u) =
//            (65 - e) 2^64 - D.
//   race     W is the survivor's weight in its row, the exact integer of tile_index.h, which
//            `sample` draws by. The token is the survivor with the least L(u) / W, compared by
//            products of 192 bits; the lowest id among equals. Survivors with W = 0 do not race.
//
// Error of L. Write X_0 = x 2^-127, in [1, 2). In a step log2 X' = 2 log2 X - digit - h, where
// truncation gives 0 <= h < 1.45 2^-126 (y is at least 2^126 before it is cut). So log2 X_0 =
// D 2^-64 + sum of h_i 2^-i + 2^-64 log2 X_64, and L is above 2^64 times the real value by at least
// 0 and by less than 1 + 1.45 2^-62. L is never 0.
//
// Distance of the race to the unmarked distribution, W / (sum of W), over random keys, for n
// survivors: at most
//     1.2 n 2^-64 + n (n - 1) 2^-65
// in total variation, 3e-8 for n = 2^20, if blocks of a random key are a random permutation.
//   First term: let F be the distribution function of -log2 U, U uniform. Words u and their L stand
//   for it with an error of at most d = 2^-65 + ln2 (1 + 2^-61) 2^-64 < 1.2 2^-64 at each point: a
//   threshold on U has at most half a word on its wrong side, and L exceeds the real value by less
//   than (1 + 2^-61) 2^-64, on which F grows by ln2 of it. Replace the n exact times by the
//   computed ones, one after another. If the other times are fixed, then a set of winners depends
//   on the replaced time only through the side of one threshold on which it is, so each replacement
//   moves the probability of a set by at most d. Second term: n blocks of one permutation differ
//   from n independent words by at most the probability that two independent words are equal.
//
// Tournament of m layers. Bit 64 - l of u_v, where bit 63 is the highest, is the token's value in
// layer l = 1 ... m. The weights w_v are integers: at first floor(W 2^-s), with the least s >= 0
// for which the sum of all W of survivors is below 2^(s + 62). A layer adds up Z = sum of w_v, and
// G = the sum of those with a value of 1. It replaces w_v by floor(w_v f 2^-64), and by w_v more if
// the value is 1. Here f = 2^64 d, cut to an integer, and d is the quotient of Z - G and Z in
// doubles, each rounded to nearest, as both operands are, but at most 1 - 2^-53. After the last
// layer, the token is the first, by ascending id, for which the sum of the w_v up to it exceeds
// floor(r Z 2^-64), with Z anew and r the word of attempt 64 of the draw. No sum depends on the
// order of its terms.
//   A match of two candidates, drawn by p, is won by the one with the larger value, or by lot: the
//   winner is v with probability p_v (1 + g_v - sum of p g), which is the factor f 2^-64 + g_v.
//   Over random bits the mean of g_v - sum of p g is 0, so that each layer leaves the mean of p_v
//   as it is.
//
// Distance of a tournament to the unmarked distribution, over keys and words, for n survivors: at
// most
//     5 m 2^-53 + (m + 1) n 2^-60
// in total variation, 3e-11 for n = 2^20 and m = 30, and n blocks of one permutation differ by
// n (n - 1) 2^-65 more, as above.
//   If numbers of sum A are moved by at most E in all, then their shares are moved by at most E / A
//   in total variation. The largest W is above 2^102 (common/tile_weights.h), so Z is at least
//   2^61 - n at first, and the first weights are moved by less than n. f 2^-64 is within 5 2^-53 of
//   (Z - G) / Z: three roundings, the limit of d, and the cut. So a layer moves the weights, whose
//   sum an exact layer does not change, by less than 5 2^-53 Z + n in all. Z stays above 2^60, and
//   the shares move by less than 5 2^-53 + n 2^-60. Exact layers keep means, so that the error of
//   each layer counts once. The draw's word has 2^64 values, so that each probability is off by
//   less than 2^-64, and all by n 2^-65: with the first weights, less than n 2^-60.
//
// Green list. Token v is green if u_v < floor(green_share 2^64). In step 3 of logits processing
// (logits_processing.h), the bias of each green token is greater by green_bias, in one addition of
// float32. So filters, log-probabilities and statuses are those of a row with these biases.
//
// With `mask_repeated`, a context that the request had before is not marked: the draw is then the
// ordinary one, by seed and offset. So a request's sequence of tokens has the unmarked distribution
// over random keys (and words, of a tournament), within the sum of its draws' distances, if the
// scheme is not green_list. (Without mask_repeated, each single token has the unmarked
// distribution, but the tokens of equal contexts depend on each other.) Contexts that reach before
// the first id occur once in a request.
//
// Two keys: the draw takes the second key with probability `second_share`, by a coin of the
// request's own random bits: the word of attempt 65 of the draw (SampleResult), below
// floor(second_share 2^64). vLLM's dual_key_gumbel has the same rule. So the outputs of one prompt
// differ.
//
// Greedy rows have one survivor, which a race or a tournament does not change.
//
// Errors: A call returns invalid_argument if a field is out of its range or an array has the wrong
// length, and unsupported if this machine has no execution.target; the message names the field, its
// value and the allowed range. If a call returns an error, it has written nothing.
//
// Definition: Aaronson 2022, Kirchenbauer et al. 2023, Fernandez et al. 2023 and Dathathri et al.
// 2024, as above; docs/semantics.md for the filters.
#pragma once

#include <cstdint>

#include "fairdraw/sample.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Largest number of ids of a context.
inline constexpr std::int32_t kMaxWatermarkWindow = 32;

/// The way in which words choose tokens.
enum class WatermarkScheme : std::uint32_t {
  race = 0,        ///< the first of the survivors, by the words
  tournament = 1,  ///< the words' bits change the survivors' probabilities
  green_list = 2,  ///< the words choose tokens whose biases are greater
};

/// Rule that a generator and its detector share.
struct WatermarkRule {
  std::int32_t window = 4;                         ///< ids of a context, 1 to 32
  WatermarkScheme scheme = WatermarkScheme::race;  ///< race, tournament or green_list
  std::int32_t layers = 30;                        ///< of a tournament, 1 to 64
  float green_share = 0.25F;                       ///< of a green list, at least 2^-20 and below 1
};

/// The marks of a call's rows.
struct Watermark {
  /// scalar or [rows]; of an array 0: the row is not marked; a scalar must not be 0
  PerRequest<std::uint64_t> key = std::uint64_t{0};
  PerRequest<std::uint64_t> second_key = std::uint64_t{0};  ///< scalar or [rows]; 0: none
  float second_share = 0.1F;  ///< in [0, 1]; share of draws by the second key, where there is one
  WatermarkRule rule;         ///< rule of all rows
  float green_bias = 2.0F;    ///< of a green list, 0 to 2^32
  /// 1: repeated contexts are not marked; scalar or [rows]
  PerRequest<std::uint8_t> mask_repeated = std::uint8_t{1};
};

/// As `sample`, with marked draws in the rows that have a key. Engines keep the ids that a request
/// has generated for penalties and bad words already, so contexts are read from the same lists:
/// `request.processing.output` must be given, with all generated ids. A row without a key has the
/// results of `sample`.
///
/// Each row has one token: `indices` and num_samples other than 1 are errors. A marked row whose
/// output has an id that is no token (a placeholder, -1, is none) fails with invalid_history.
Error sample_marked(const SampleRequest& request, const Watermark& watermark,
                    const SampleResult& result, const Execution& execution = {});

// --- Detection -----------------------------------------------------------------------------------

// In text that knows nothing of the key, words are uniform. The words of marked tokens tend to be
// large, to have bits of 1, or to be below the limit of green tokens. A pair of context and token
// that occurs again has the same word, so it is scored once. For T scored positions, the score S is
//   race        the sum of -ln(1 - (u + 1/2) 2^-64): on unmarked text Gamma(T, 1), within T 2^-65
//   tournament  the number of ones in the m highest bits of each u: Binomial(T m, 1/2)
//   green_list  the number of green tokens: Binomial(T, q), q = floor(green_share 2^64) 2^-64
//
//   p-value  P(score >= S) of the key with the largest S, times the number of keys, at most 1
//            (Bonferroni).
//   e-value  the mean over the keys of E, the mean over i = 1 ... 15 of the likelihood ratios of
//            exponential variables of rate 1 - i/16, or of N trials (T m or T) that succeed with
//            probability q_i = q + (1 - q) i/16: (1 - i/16)^T e^(S i/16), or (q_i / q)^S
//            ((1 - q_i) / (1 - q))^(N - S). A new position multiplies a term by a factor of mean
//            at most 1: E is a test supermartingale, and over a text that grows it ever exceeds 1/a
//            with probability at most a (Ville). A stream may be tested after each token.
//
// Text that is cut or edited has unmarked contexts: h tokens after a cut or an edit score as if
// they were not marked.

/// Ids to be tested, and the keys that may have marked them.
struct WatermarkText {
  View<const std::int32_t> tokens;  ///< [length]; the ids of one output, oldest first
  View<const std::uint64_t> keys;   ///< [keys], at least one, each not 0
  WatermarkRule rule;               ///< as in Watermark
};

/// The evidence that a text is marked by one of the keys.
struct WatermarkEvidence {
  std::int64_t scored = 0;  ///< number T of different pairs of context and token
  double score = 0;         ///< score S of the key with the largest score
  std::int64_t key = 0;     ///< index of the key with the largest score
  double p_value = 1;       ///< p-value, corrected for the number of keys
  double log_e_value = 0;   ///< natural logarithm
};

/// Tests a text. On an error (an id outside [0, 2^20), a key of 0) nothing is written.
Error detect_watermark(const WatermarkText& text, WatermarkEvidence& evidence);

/// The smallest S for which `scored` positions and `keys` keys have a p-value of at most
/// `false_positive_rate`, in (0, 1]. If no score of a tournament or a green list has such a
/// p-value, S is one more than the number of trials.
Error watermark_threshold(const WatermarkRule& rule, std::int64_t scored, std::int64_t keys,
                          double false_positive_rate, double& score);

}  // namespace fairdraw
