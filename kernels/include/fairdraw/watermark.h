// Watermarks: tokens that a key chooses, and the detector that finds them in plain token ids.
//
// A marked draw is a race by keyed words among the survivors of the filters (the Gumbel watermark:
// Aaronson 2022; Kirchenbauer et al. 2023 for contexts; Fernandez et al. 2023 for the test). For
// one key and one context the token is a function of the row's survivors. Over random keys the
// token is distributed as the unmarked one. Everything is an integer: the same token and the same
// words everywhere.
//
// Definition.
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
// Distance to the unmarked distribution, W / (sum of W), over random keys, for n survivors: at most
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
// With `mask_repeated`, a context that the request had before is not marked: the draw is then the
// ordinary one, by seed and offset. So a request's sequence of tokens has the unmarked distribution
// over random keys, within the sum of its draws' distances. (Without mask_repeated, each single
// token has the unmarked distribution, but the tokens of equal contexts depend on each other.)
// Contexts that reach before the first id occur once in a request.
//
// Two keys: the draw takes the second key with probability `second_share`, by a coin of the
// request's own random bits: the word of attempt 65 of the draw (SampleResult), below
// floor(second_share 2^64). vLLM's dual_key_gumbel has the same rule. So the outputs of one prompt
// differ.
//
// Greedy rows have one survivor, and a mark does not change it.
//
// Errors: A call returns invalid_argument if a field is out of its range or an array has the wrong
// length, and unsupported if this machine has no execution.target; the message names the field, its
// value and the allowed range. If a call returns an error, it has written nothing.
//
// Definition: Aaronson 2022, Kirchenbauer et al. 2023 and Fernandez et al. 2023, in integers, as
// above; docs/semantics.md for the filters.
#pragma once

#include <cstdint>

#include "fairdraw/sample.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Largest number of ids of a context.
inline constexpr std::int32_t kMaxWatermarkWindow = 32;

/// The marks of a call's rows.
struct Watermark {
  /// scalar or [rows]; of an array 0: the row is not marked; a scalar must not be 0
  PerRequest<std::uint64_t> key = std::uint64_t{0};
  PerRequest<std::uint64_t> second_key = std::uint64_t{0};  ///< scalar or [rows]; 0: none
  float second_share = 0.1F;  ///< in [0, 1]; share of draws by the second key, where there is one
  std::int32_t window = 4;    ///< ids of a context, 1 to 32
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

// A position's score under a key is -ln(1 - (u + 1/2) 2^-64), u the word of its token. In text that
// knows nothing of the key, words are uniform, so scores are exponential with mean 1, and the sum S
// of T of them is Gamma(T, 1) (within T 2^-65, because words have 64 bits). The words of marked
// tokens tend to be large. A pair of context and token that occurs again has the same word, so it
// is scored once.
//
//   p-value  P(Gamma(T, 1) >= S) of the key with the largest S, times the number of keys, at most 1
//            (Bonferroni).
//   e-value  the mean over the keys of E = 1/15 sum over i = 1 ... 15 of (1 - i/16)^T e^(S i/16).
//            A new score x multiplies a term by (1 - i/16) e^(x i/16), which has mean at most 1: E
//            is a test supermartingale, and over a text that grows it ever exceeds 1/a with
//            probability at most a (Ville). A stream may be tested after each token.
//
// Text that is cut or edited has unmarked contexts: h tokens after a cut or an edit score as if
// they were not marked.

/// Ids to be tested, and the keys that may have marked them.
struct WatermarkText {
  View<const std::int32_t> tokens;  ///< [length]; the ids of one output, oldest first
  View<const std::uint64_t> keys;   ///< [keys], at least one, each not 0
  std::int32_t window = 4;          ///< as in Watermark
};

/// The evidence that a text is marked by one of the keys.
struct WatermarkEvidence {
  std::int64_t scored = 0;  ///< number T of different pairs of context and token
  double score = 0;         ///< sum S of the key with the largest sum
  std::int64_t key = 0;     ///< index of the key with the largest sum
  double p_value = 1;       ///< p-value, corrected for the number of keys
  double log_e_value = 0;   ///< natural logarithm
};

/// Tests a text. On an error (an id outside [0, 2^20), a key of 0) nothing is written.
Error detect_watermark(const WatermarkText& text, WatermarkEvidence& evidence);

/// The smallest S for which `scored` positions and `keys` keys have a p-value of at most
/// `false_positive_rate`, in (0, 1].
Error watermark_threshold(std::int64_t scored, std::int64_t keys, double false_positive_rate,
                          double& score);

}  // namespace fairdraw
