// The integer model: full stable sort, exact integer weights. The bit-exact expectation for
// fairdraw's own kernels, written independently of them. Needs the default floating-point
// environment: round to nearest, subnormals kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fairdraw/types.h"

namespace fairdraw::reference {

/// Weight of a token whose scaled distance to the maximum is y <= 0 (in octaves): 2^y in units of
/// 2^-40, by the polynomial of the specification, truncated. exp2fix(0) == 2^40.
std::uint64_t exp2fix(float y);

/// log2 of min_p as the float32 threshold on y. min_p in (0, 1].
float min_p_threshold(float min_p);

struct RowParameters {
  float temperature = 1;
  std::int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
};

/// What the specification says of one row.
struct IntegerRow {
  RowStatus status = RowStatus::ok;
  std::vector<std::uint8_t> mask;      ///< [vocab] 1: survives the filters
  std::vector<std::uint64_t> weight;   ///< [vocab] weight before filtering; 0 where not allowed
  std::uint64_t total = 0;             ///< sum over the survivors
  std::uint64_t total_unfiltered = 0;  ///< sum over all allowed tokens
  std::int32_t support_size = 0;
  std::int32_t greedy_token = -1;  ///< set for greedy rows

  /// Token for position t in [0, total): the first, in id order, whose inclusive prefix sum of
  /// surviving weights exceeds t. Throws std::out_of_range for t >= total.
  std::int32_t token_at(std::uint64_t t) const;
  /// Token for a random word: token_at(floor(word * total / 2^64)); -1 where status is not ok.
  std::int32_t token_for(std::uint64_t word) const;
  /// Renormalised probability, as the specification rounds it.
  float probability(std::int32_t token) const;
};

/// One row of logits. `allowed`: packed bits, or empty. Temperature 0 is greedy, and its weights
/// are those of temperature 1. Throws std::invalid_argument where `allowed` has too few words or
/// the row is longer than kMaxVocab.
IntegerRow integer_model(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                         const RowParameters& parameters, TieRule tie_rule = TieRule::keep_all,
                         FilterOrder filter_order = FilterOrder::top_k_first);

/// One row of probabilities. Temperature is not used. `top_k_1_keeps_ties`: top_k 1 keeps every
/// tie of the maximum, as top_k_renorm_probs does, rather than the lowest id. top_p 0 is greedy.
IntegerRow integer_model_from_probs(std::span<const float> probs, const RowParameters& parameters,
                                    FilterOrder filter_order = FilterOrder::top_k_first,
                                    bool top_k_1_keeps_ties = false);

/// Outcome of a chain of drafted tokens, from the random words of each purpose by position.
struct ChainOutcome {
  RowStatus status = RowStatus::ok;
  std::vector<std::int32_t> tokens;  ///< [n + 1], -1 after the last
  std::int32_t accepted = 0, emitted = 0;
};

/// draft_probs: n rows, target_probs: n + 1 rows of `vocab`; accept_words, recover_words: [n].
/// `accepted` counts the positions that pass their own test, `emitted` those before the first that
/// fails. A draft token outside [0, vocab) fails the chain before any row is read; then rows
/// do, by position, at each one the draft's first, whether or not the chain gets there.
/// Throws std::invalid_argument where lengths do not fit.
ChainOutcome chain_speculative_model(std::span<const float> draft_probs,
                                     std::span<const std::int32_t> draft_tokens,
                                     std::span<const float> target_probs, std::size_t vocab,
                                     std::span<const std::uint64_t> accept_words,
                                     std::span<const std::uint64_t> recover_words,
                                     std::uint64_t bonus_word);

/// Logits that the top_k_mask_logits operation keeps: at or above the k-th largest (0, -1 and
/// k >= vocab: all). 0 where the logit is -inf, and everywhere in a row that fails.
std::vector<std::uint8_t> top_k_mask(std::span<const float> logits, std::int32_t top_k);

/// float32 value of 16 bits.
float float_from_half(std::uint16_t bits);
float float_from_bfloat16(std::uint16_t bits);

}  // namespace fairdraw::reference
