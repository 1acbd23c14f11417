// The integer model: full sort, exact integer weights by tiles. The model is the bit-exact
// expectation for fairdraw's own kernels, written independently of them. Precondition: the default
// floating-point environment (round to nearest, subnormals kept).
//
// A logit x is y = x c octaves, with c = log2(e) / T rounded to float32. Such a logit stands for
// 2^n times 2^r, with n the integer nearest to y and r the rest. The significand m is 2^r in units
// of 2^-23.
//
//   tile  256 consecutive ids, the first tile from id 0. N is the n of its largest allowed logit. A
//         token s octaves below (s = N - n) weighs floor(m 2^(32 - s)) in the tile, 0 from s = 64.
//   row   E is the largest N. A tile that is E - N octaves below counts each of its weights
//         2^(48 - (E - N)) times, and 0 times from E - N = 49. That is the token's weight in the
//         row, below 2^104, and the sum of a row is below 2^124.
//
// A probability has its own significand and exponent; the following steps are the same. Filters
// drop tokens but change no weight. Filters do not change N either, which depends on all allowed
// tokens of the tile.
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
// Proof that the token is j with P = W_j / Z_K: step 2 depends only on the value, and accepts
// exactly the survivors of the filters, which the ranking's prefix keeps. Proposals are independent
// and have P(t = j) = W_j / Z' within 2^-64, and survivors are in tiles that propose. So an
// accepted proposal has P = W_j / Z_K, and so has the token of step 3. The number of the first
// accepted attempt is independent of its token.
//
// Speculation with a draft of known distribution multiplies weights of two rows and does not use
// tiles: there a token weighs floor(m 2^(16 + n - E)), below 2^40, in any tile.
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
/// Maximum number of proposals before a row draws among its survivors.
inline constexpr std::uint32_t kAttemptsOfADraw = 64;

/// A weight in the row, or a sum of such weights.
__extension__ typedef unsigned __int128 RowWeight;

/// 2^whole times significand / 2^23. `whole` is an integer, kept in a double because a logit of
/// 1e38 at a temperature of 2^-126 exceeds any integer type.
struct TokenOctaves {
  double whole = 0;
  std::uint32_t significand = 0;
};

/// Returns c, the octaves per unit of logit, for a temperature that is not 0.
float octaves_per_logit(float temperature);
/// Returns 2^r in units of 2^-23, by the polynomial of the specification, for |r| <= 1/2.
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

/// Returns log2 of min_p, in (0, 1], as the float32 threshold on the distance to the maximum in
/// octaves.
float min_p_threshold(float min_p);

/// Returns an integer with the order of floats; both zeros give 0. Precondition: not NaN.
std::int32_t key_of(float value);
/// Returns the double nearest to a weight, ties to even.
double to_nearest_double(RowWeight weight);
/// Returns the position of a random word, floor(word * total / 2^64).
RowWeight position_of(std::uint64_t word, RowWeight total);

struct RowParameters {
  float temperature = 1;
  std::int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
};

/// A tile's entry of the index, and values derived from it. The values cover all allowed tokens of
/// the tile, whatever the filters are, except that `proposes` depends on min_p.
struct TileOfRow {
  std::int32_t key = 0;   ///< key_of the largest allowed logit; of -inf if no token is allowed
  std::uint64_t sum = 0;  ///< sum of the weights in the tile; 0 if no token is allowed
  double octave = 0;      ///< octave N of the tile; -inf if no token is allowed
  bool proposes = false;  ///< in a row that proposes: whether min_p keeps the tile's largest value
};

/// The results that the specification defines for one row.
struct IntegerRow {
  RowStatus status = RowStatus::ok;
  std::vector<TileOfRow> tiles;      ///< [ceil(vocab / 256)]; without tokens in a row that fails
  double octave = 0;                 ///< E
  std::vector<std::uint8_t> mask;    ///< [vocab], 1 for survivors of the filters
  std::vector<RowWeight> weight;     ///< [vocab] weights before filtering; 0 if not allowed
  std::vector<double> uncut_weight;  ///< [vocab] m 2^(80 + n - E), of which `weight` is what tiles
                                     ///< leave; 0 from 256 octaves below the row's maximum on
  RowWeight total = 0;               ///< sum of weights over the survivors
  RowWeight total_unfiltered = 0;    ///< sum of weights over all allowed tokens
  std::vector<std::uint64_t> speculation_weight;  ///< [vocab] before filtering, like `weight`
  std::int32_t support_size = 0;
  std::int32_t greedy_token = -1;  ///< the token of a greedy row
  bool proposes = false;           ///< whether a draw by seed tries proposals first

  /// Returns the token for position t in [0, total): the first, in id order, whose inclusive prefix
  /// sum of surviving weights exceeds t. Throws std::out_of_range if t >= total.
  std::int32_t token_at(RowWeight t) const;
  /// Returns the token for a random word, token_at(position_of(word, total)); -1 if status is not
  /// ok.
  std::int32_t token_for(std::uint64_t word) const;
  /// Returns the token of a draw by seed: by proposals if the row proposes, otherwise
  /// token_for(word(0)); -1 if status is not ok. word(i) is the word of attempt i, and word(64)
  /// that of the draw among survivors.
  std::int32_t token_by_attempts(const std::function<std::uint64_t(std::uint32_t)>& word) const;
  /// Returns the token that a random word proposes, whether or not it survives the filters.
  /// Precondition: the row proposes.
  std::int32_t proposal_for(std::uint64_t word) const;
  /// Returns the first word whose position is at least t, 0 < t < total; none if all words fall
  /// short.
  std::optional<std::uint64_t> first_word_at(RowWeight t) const;
  /// Return the survivors' sum of speculation weights, below 2^60, and the token for a random word.
  std::uint64_t speculation_total() const;
  std::int32_t speculation_token_for(std::uint64_t word) const;
  /// Returns the renormalised probability: the quotient of uncut_weight and the double nearest to
  /// total, as a double, and that as the nearest float32. Tokens that are never drawn have one too.
  float probability(std::int32_t token) const;
};

/// Computes one row of logits. `allowed` has packed bits, or is empty if all tokens are allowed.
/// Temperature 0 is greedy, with the weights of temperature 1. Throws std::invalid_argument if
/// `allowed` has too few words or the row is longer than kMaxVocab.
IntegerRow integer_model(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                         const RowParameters& parameters, TieRule tie_rule = TieRule::keep_all,
                         FilterOrder filter_order = FilterOrder::top_k_first);

/// Computes one row of probabilities. The temperature is not used. With `top_k_1_keeps_ties`, top_k
/// 1 keeps every tie of the maximum, like top_k_renorm_probs; otherwise it keeps the lowest id.
/// top_p 0 is greedy.
IntegerRow integer_model_from_probs(std::span<const float> probs, const RowParameters& parameters,
                                    FilterOrder filter_order = FilterOrder::top_k_first,
                                    bool top_k_1_keeps_ties = false);

/// The outcome of a chain of drafted tokens, for given random words per purpose and position.
struct ChainOutcome {
  RowStatus status = RowStatus::ok;
  std::vector<std::int32_t> tokens;  ///< [n + 1], -1 after the last
  std::int32_t accepted = 0, emitted = 0;
};

/// Verifies a chain. draft_probs has n rows, target_probs n + 1 rows of `vocab`; accept_words and
/// recover_words are [n]. `accepted` counts the positions that pass their own test, `emitted` those
/// before the first that fails. A draft token outside [0, vocab) fails the chain before any row is
/// read. Otherwise the first bad row fails the chain, by position and the draft's row first,
/// whether or not the chain reaches this row. Throws std::invalid_argument if the lengths of the
/// arrays do not match.
ChainOutcome chain_speculative_model(std::span<const float> draft_probs,
                                     std::span<const std::int32_t> draft_tokens,
                                     std::span<const float> target_probs, std::size_t vocab,
                                     std::span<const std::uint64_t> accept_words,
                                     std::span<const std::uint64_t> recover_words,
                                     std::uint64_t bonus_word);

/// Returns 1 for the logits that the top_k_mask_logits operation keeps: at or above the k-th
/// largest (0, -1 and k >= vocab keep all). Returns 0 if the logit is -inf, and everywhere in a row
/// that fails.
std::vector<std::uint8_t> top_k_mask(std::span<const float> logits, std::int32_t top_k);

/// Return the float32 value of 16 bits.
float float_from_half(std::uint16_t bits);
float float_from_bfloat16(std::uint16_t bits);

}  // namespace fairdraw::reference
