// The integer model computes a row by a full sort and exact integer weights by tiles. Kernels of
// fairdraw must agree with the model bit for bit; the model is written independently of them.
// Precondition: the default floating-point environment (round to nearest, subnormals kept).
//
// A logit x is y = x c octaves, where c = log2(e) / T is rounded to float32. Such a logit stands
// for 2^n times 2^r, where n is the integer nearest to y and r is the rest. The significand m is
// 2^r in units of 2^-23.
//
//   tile  256 consecutive ids, the first tile from id 0. N is the n of its largest allowed logit. A
//         token s octaves below (s = N - n) weighs floor(m 2^(32 - s)) in the tile, 0 from s = 64.
//   row   E is the largest N. A tile that is E - N octaves below counts each of its weights
//         2^(48 - (E - N)) times, and 0 times from E - N = 49. That is the token's weight in the
//         row, below 2^104, and the sum of a row is below 2^124.
//
// A probability has its own significand and exponent; all other steps are the same for logits and
// for probabilities. Filters drop tokens but do not change the weights of the others. Filters do
// not change the octave N of a tile either, because N depends on all allowed tokens of the tile.
//
// A row that is not greedy, with top_p below 1 and no active top_k, is drawn by proposals:
//
//   1. Attempt i of 64 has its own word. Its proposal is the token at floor(word Z' / 2^64) of the
//      tiles whose largest value min_p keeps (all tiles if there is no min_p). Whole tiles count,
//      and Z' is their sum.
//   2. It is accepted if min_p keeps it and A is below max(1, ceil(top_p Z_F)). A is the sum over
//      strictly larger values that min_p keeps, Z_F the sum over all values that min_p keeps.
//   3. The first accepted proposal is the token. If there is none, it is the survivor at
//      floor(word Z_K / 2^64), with word 64; Z_K is the survivors' sum.
//
// This is a proof that the token is j with probability P = W_j / Z_K: step 2 depends only on the
// value, and accepts exactly the survivors of the filters, which are a prefix of the ranking.
// Proposals are independent, and a proposal is token j with probability W_j / Z' within 2^-64; all
// survivors are in tiles that propose. So an accepted proposal is token j with probability W_j /
// Z_K, and the token of step 3 is j with the same probability. The number of the first accepted
// attempt is independent of the accepted token.
//
// Speculation with a draft of known distribution multiplies weights of two rows and does not use
// tiles: for speculation, a token of any tile weighs floor(m 2^(16 + n - E)), which is below 2^40.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "fairdraw/types.h"

namespace fairdraw::reference {

inline constexpr std::size_t kIdsOfATile = 256;
/// Maximum number of proposals before a row draws among its surviving tokens.
inline constexpr std::uint32_t kAttemptsOfADraw = 64;

/// A token's weight in the row, or a sum of such weights.
__extension__ typedef unsigned __int128 RowWeight;

/// 2^whole times significand / 2^23. The field `whole` is an integer; it is kept in a double,
/// because a logit of 1e38 at a temperature of 2^-126 exceeds any integer type.
struct TokenOctaves {
  double whole = 0;
  std::uint32_t significand = 0;
};

/// Returns c, the octaves per unit of logit, for a temperature that is not 0.
float octaves_per_logit(float temperature);
/// Returns 2^r in units of 2^-23, by the polynomial of the specification; requires |r| <= 1/2.
std::uint32_t octave_significand(float r);
/// Returns the octaves of a finite logit.
TokenOctaves octaves_of_logit(float logit, float scale);
/// Returns the octaves of a finite probability above 0.
TokenOctaves octaves_of_prob(float probability);
/// Returns the weight of a token in a tile whose largest value has octave `tile_octave`.
std::uint64_t weight_in_tile(const TokenOctaves& token, double tile_octave);
/// Converts a weight in a tile, or a tile's sum, to a weight in the row.
RowWeight weight_in_row(std::uint64_t weight, double tile_octave, double row_octave);
/// Returns the weight of a token in speculation, in a row whose largest allowed value has octave
/// `row_octave`.
std::uint64_t weight_in_speculation(const TokenOctaves& token, double row_octave);

/// Returns log2(min_p), with min_p in (0, 1], as the float32 threshold on a token's distance to the
/// maximum in octaves.
float min_p_threshold(float min_p);

/// Returns an integer that has the same order as the floats; +0 and -0 both give 0. Precondition:
/// not NaN.
std::int32_t key_of(float value);
/// Returns the double nearest to a weight; a weight halfway between two doubles is rounded to even.
double to_nearest_double(RowWeight weight);
/// Returns the position of a random word, floor(word * total / 2^64).
RowWeight position_of(std::uint64_t word, RowWeight total);

struct RowParameters {
  float temperature = 1;
  std::int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
};

/// The index entry of a tile, and values derived from the entry. The values cover all allowed
/// tokens of the tile, whatever the filters are; only `proposes` depends on min_p.
struct TileOfRow {
  std::int32_t key = 0;   ///< key_of(largest allowed logit); key_of(-inf) if no token is allowed
  std::uint64_t sum = 0;  ///< sum of the weights in the tile; 0 if no token is allowed
  double octave = 0;      ///< octave N of the tile; -inf if no token is allowed
  bool proposes = false;  ///< in a row that proposes: true if min_p keeps the tile's largest value
};

/// The results that the specification defines for one row.
struct IntegerRow {
  RowStatus status = RowStatus::ok;
  std::vector<TileOfRow> tiles;      ///< [ceil(vocab / 256)]; without tokens if the row fails
  double octave = 0;                 ///< E
  std::vector<std::uint8_t> mask;    ///< [vocab], 1 for tokens that the filters keep
  std::vector<RowWeight> weight;     ///< [vocab] weights before filtering; 0 if not allowed
  std::vector<double> uncut_weight;  ///< [vocab] exact m 2^(80 + n - E), before tiles cut bits off
                                     ///< to give `weight`; 0 from 256 octaves below the row's
                                     ///< maximum on
  RowWeight total = 0;               ///< sum of the weights of the survivors
  RowWeight total_unfiltered = 0;    ///< sum of weights over all allowed tokens
  std::vector<std::uint64_t> speculation_weight;  ///< [vocab] weights for speculation before
                                                  ///< filtering, like `weight`
  std::int32_t support_size = 0;
  std::int32_t greedy_token = -1;  ///< the token that a greedy row always gives
  bool proposes = false;           ///< true if a draw by seed tries proposals first

  /// Returns the token for position t in [0, total): the first token, in id order, whose inclusive
  /// prefix sum of surviving weights exceeds t. Throws std::out_of_range if t >= total.
  std::int32_t token_at(RowWeight t) const;
  /// Returns the token for a random word, which is token_at(position_of(word, total)), or -1 if
  /// status is not ok.
  std::int32_t token_for(std::uint64_t word) const;
  /// Returns the token of a draw by seed: by proposals if the row proposes, otherwise
  /// token_for(word(0)); -1 if status is not ok. The function word(i) gives the word of attempt i,
  /// and word(64) is the word of the draw among survivors.
  std::int32_t token_by_attempts(const std::function<std::uint64_t(std::uint32_t)>& word) const;
  /// Returns the token that a random word proposes, which the filters need not keep. Precondition:
  /// the row proposes.
  std::int32_t proposal_for(std::uint64_t word) const;
  /// Returns the first word whose position is at least t, with 0 < t < total, or nullopt if the
  /// positions of all words are below t.
  std::optional<std::uint64_t> first_word_at(RowWeight t) const;
  /// Returns the sum of the survivors' speculation weights, which is below 2^60.
  std::uint64_t speculation_total() const;
  /// Returns the survivor that a random word gives by speculation weights.
  std::int32_t speculation_token_for(std::uint64_t word) const;
  /// Returns the renormalised probability: uncut_weight divided by the double nearest to total,
  /// computed as a double and then rounded to float32. Tokens that are never drawn have a
  /// probability too.
  float probability(std::int32_t token) const;
};

/// Computes the model's result for one row of logits. `allowed` has packed bits, or is empty if all
/// tokens are allowed. Temperature 0 is greedy, with the weights at temperature 1. Throws
/// std::invalid_argument if `allowed` has too few words or the row is longer than kMaxVocab.
IntegerRow integer_model(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                         const RowParameters& parameters, TieRule tie_rule = TieRule::keep_all,
                         FilterOrder filter_order = FilterOrder::top_k_first);

/// Computes the model's result for one row of probabilities. The temperature is not used. With
/// `top_k_1_keeps_ties`, top_k = 1 keeps all tokens tied for the maximum, like top_k_renorm_probs;
/// otherwise top_k = 1 keeps the lowest id. top_p = 0 is greedy.
IntegerRow integer_model_from_probs(std::span<const float> probs, const RowParameters& parameters,
                                    FilterOrder filter_order = FilterOrder::top_k_first,
                                    bool top_k_1_keeps_ties = false);

/// The outcome of a chain of drafted tokens, for random words given by purpose and position.
struct ChainOutcome {
  RowStatus status = RowStatus::ok;
  std::vector<std::int32_t> tokens;  ///< [n + 1], -1 after the last
  std::int32_t accepted = 0, emitted = 0;
};

/// Accepts or rejects the drafted tokens of a chain of drafted tokens. draft_probs has n rows and
/// target_probs has n + 1 rows, each of `vocab` values; accept_words and recover_words have n
/// words. The field `accepted` counts the positions that pass their own test, `emitted` counts
/// those before the first that fails. A draft token outside [0, vocab) fails the chain before any
/// row is read. Otherwise the first bad row fails the chain; rows are ordered by position, the
/// draft's before the target's, and rows after a rejection count too. Throws std::invalid_argument
/// if the lengths of the arrays do not match.
ChainOutcome chain_speculative_model(std::span<const float> draft_probs,
                                     std::span<const std::int32_t> draft_tokens,
                                     std::span<const float> target_probs, std::size_t vocab,
                                     std::span<const std::uint64_t> accept_words,
                                     std::span<const std::uint64_t> recover_words,
                                     std::uint64_t bonus_word);

/// Returns 1 for each logit that the operation top_k_mask_logits keeps, because the logit is at or
/// above the k-th largest (k of 0, -1 and k >= vocab keep all). Returns 0 for a logit of -inf, and
/// for every logit of a row that fails.
std::vector<std::uint8_t> top_k_mask(std::span<const float> logits, std::int32_t top_k);

/// Return the float32 value of a float16 or bfloat16 given by its 16 bits.
float float_from_half(std::uint16_t bits);
float float_from_bfloat16(std::uint16_t bits);

}  // namespace fairdraw::reference
