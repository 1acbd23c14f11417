// Logits processing changes a row of logits before temperature and filters, as inference engines
// do.
//
// Processing is sparse: the processed row differs from the caller's row only at tokens that a list
// names, and at tokens that are banned. `sample` applies the processing while it reads the row, so
// that no processed row is stored.
//
// The steps on a row have this order. Each arithmetic operation is a float32 operation, rounded
// once, so that backends agree bit for bit. Order and formulas are those of vLLM (vllm/v1/sample),
// except that the bias comes after the penalties here.
//   1. repetition penalty r, of tokens in prompt or output:  x > 0 ? x / r : x * r.
//   2. frequency penalty f, of tokens in the output:         x - (f * count).
//      presence penalty p, of tokens in the output:          x - p.
//      With counts_of_prompt, the count is that of prompt and output together. With a
//      penalty_window w, steps 1 and 2 see only the last w tokens of prompt and output together.
//   3. logit bias b:                                         x + b; -inf bans the token.
//      dry_multiplier m, of tokens that would repeat ids:    x - m * dry_base^(n - a).
//      The history has the last dry_window ids of prompt and output together, and a is
//      dry_allowed_length. For a place of the history, n is the number of ids before the place that
//      equal the last ids of the history, one by one; ids up to the last of dry_breakers do not
//      count. The id at the place gets the penalty if n >= a and if it is no breaker, for the
//      largest n of its places. The product has one float32 operation for each id, and ends at
//      2^64.
//   4. minimum tokens: stop ids are banned while the output is shorter than min_tokens.
//   5. bad words: the last id of a word of L ids is banned if the output ends with the
//      L - 1 ids before it. A word of one id is always banned.
//      no_repeat_ngram_size n: a token is banned if prompt and output together, followed by the
//      token, would end with n ids that they have already, one after the other. With n = 1, every
//      token of the two is banned.
//   6. allowed ids: all other ids are banned. If the list is empty, all ids are allowed.
//      forced_tokens: let c be the number of ids after the last forced_after in prompt and output
//      together, or the length of the output if forced_after is -1. If c is forced_delay + i, then
//      entry i of forced_tokens stands in place of the allowed ids, unless the first forced_delay
//      of these ids have the list's last entry. So a budget of thinking is the delay after the id
//      that begins it, and the list ends with the id that ends it. Without a delay, and with
//      forced_after -1, the output begins with the list.
//   7. SampleRequest::allowed, the packed bitmask.
//   8. top_n_sigma n: among the tokens that are left, a token whose logit is more than n sigma
//      below the largest logit is banned. A distance to the largest logit is counted in steps of
//      2^-20, rounded down, at most 2^31 - 1 steps, so that sums are integers and do not depend on
//      their order. For N tokens with distances q, D = N sum(q^2) - sum(q)^2, and a token stays if
//      q <= n sqrt(D) / N; each of these operations is in double, rounded once. Sigma is that of
//      the population, as in llama.cpp (that of torch.std is a sample's).
//   9. The filters by probability, in the order below. Each filter sees the tokens that the steps
//      before it left: p is their distribution at temperature 1, and H = -sum p ln p. A token stays
//      if it meets the filter's condition; the others are banned.
//        typical_p t       the mass whose |-ln p - H| is smaller than the token's is below t. The
//                          token that reaches t stays, and its ties; the nearest token always does.
//        epsilon_cutoff e  p >= e, or the logit is the largest.
//        eta_cutoff e      p >= min(e, sqrt(e) exp(-H)), or the logit is the largest.
//        p_less            p >= sum p^2.
//        top_h a           the tokens with at least this logit, alone, have an entropy of at most
//                          a H, or the logit is the largest.
//        xtc_threshold t   with xtc_probability c, in a share c of steps: p is at most the smallest
//                          probability that is at least t, if there is one. The coin is a word of
//                          xtc_seed, the length of the output and Purpose::exclude; a request may
//                          have the same seed for its draws.
//      The arithmetic has integers and doubles that do not depend on an order, so that backends
//      agree bit for bit. docs/semantics.md says where a filter may differ from real numbers, and
//      from engines: all of transformers' filters see the temperature, and come after its top_k and
//      top_p; llama.cpp's chain has the temperature last, typical_p after top_k, and xtc after
//      min_p. The typical_p of llama.cpp adds a token even if the mass is exactly t, and leaves
//      ties to its sort, as its xtc does.
//   With a filter_chain, the steps that it names take the place of steps 8 and 9, one after the
//   other, as often as they stand in it. So its order is the request's, and what it does not name
//   has no effect. It also has these steps:
//        temperature       the steps after it see the distribution at chain_temperature.
//        top_k k           chain_top_k: logits of at least the k-th largest that is left stay.
//        top_p p           chain_top_p: a token stays if the mass of larger logits is below p.
//        min_p m           chain_min_p: p is at least m times the largest.
//        adaptive_p        stands last, and bans no token. It gives a token the logit
//                          5 - 10 d^2 / (1 + d), with d = |p - adaptive_target| / 0.3, which is
//                          computed in double from p on, from left to right, and rounded to
//                          float32. So tokens near the target are likeliest, and the request's
//                          temperature is 1 where they are drawn as the formula says.
//                          adaptive_p.h has the target that follows a request's tokens.
//      The draw has the request's own temperature, and its top_k, top_p and min_p come after the
//      chain, so that a request whose filters all stand in the chain leaves these off.
// dynatemp_range r changes no logit, but the row's temperature T, if neither is 0. Let h be the
// entropy of the tokens left, at temperature 1, as a share of ln n, the entropy of n equal tokens;
// h is 1 for one token. The row is drawn at the temperature
//        l + (T + r - l) h^e, with l = max(T - r, 0) and dynatemp_exponent e,
// which is rounded to float32 and lies within the range of a temperature. A greedy row stays
// greedy.
//
// top_p_decay d changes no logit, but the row's top_p: the first token of the output is drawn with
// the top_p of the request, and after each token t of the output
//        top_p = t is top_p_reset_id ? the top_p of the request : max(top_p * d, top_p_min).
// A top_p of 0 stays 0, so that no greedy request becomes another.
// A row is checked for NaN and +inf before the first step, and a finite logit that a step makes
// infinite fails its row (processing_overflow). A step with a neutral parameter (r = 1; f = 0; p =
// 0) does not change the logit. A row that has no token left fails with no_allowed_token. If a row
// has several faults, the status is that of the first group in this order. The first group has the
// parameters (temperature, top_k, top_p, min_p, penalties, min_tokens, top_n_sigma, filters by
// probability, rules of histories), and the second the values of the row (nan_input,
// infinite_input). The third group has the lists in the order of the steps (invalid_history,
// invalid_logit_bias, invalid_min_tokens, invalid_bad_words, invalid_allowed_ids). Overflow comes
// last. The begin and the end of every list that is given are checked. All entries of the lists are
// checked, except of allowed_ids while a token is forced, and in histories: ids of `prompt` are
// checked only if r is not 1 or the prompt is counted, and ids of `output`, or `output_counts`,
// only if a penalty is not neutral; ids before the penalty window are not checked. Ids are compared
// with the entries of dry_breakers, and with top_p_reset_id, without a check of either.
//
// Definition: vLLM (vllm/v1/sample) for steps 1 to 6; llama.cpp (src/llama-sampler.cpp) for
// top_n_sigma, penalty_window, counts_of_prompt, which is always on in llama.cpp, dry_multiplier
// with single ids as breakers, xtc_threshold, and adaptive_p; vLLM's thinking_token_budget for
// forced_tokens; llama_sampler_init_temp_ext of llama.cpp for dynatemp_range, where n counts banned
// tokens, too; TensorRT-LLM's top_p_decay, top_p_min and top_p_reset_ids for top_p_decay;
// transformers (generation/logits_process.py) for no_repeat_ngram_size, typical_p, epsilon_cutoff
// and eta_cutoff, and the chain of llama.cpp for their place before the temperature, and for a
// request's order (common_params_sampling::samplers); Tan et al.
// 2025 (arXiv 2509.23234) for p_less; Potraghloo et al. 2025 (arXiv 2509.02510) for top_h, where
// ties stay or go together; docs/semantics.md for the order of the steps.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "fairdraw/token_lists.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Smallest repetition penalty. A repetition penalty lies in [2^-64, 2^64]; frequency and presence
/// penalties and finite biases lie in [-2^64, 2^64]. Inference engines allow smaller ranges; within
/// these ranges, no step can make a NaN.
inline constexpr float kSmallestRepetitionPenalty = 0x1p-64F;
/// Largest absolute value of penalties and biases.
inline constexpr float kLargestPenalty = 0x1p64F;

/// Step of a chain of filters. The name is that of the step's parameter, with chain_ before it for
/// temperature to min_p; adaptive_p has the parameter adaptive_target; xtc has the parameters
/// xtc_probability, xtc_threshold and xtc_seed.
enum class FilterStep : std::uint32_t {
  top_n_sigma = 1,     ///< step 8 of processing
  typical_p = 2,       ///< the first of the filters by probability
  epsilon_cutoff = 3,  ///< p of at least epsilon_cutoff
  eta_cutoff = 4,      ///< p of at least eta_cutoff, or less in rows of much entropy
  p_less = 5,          ///< p of at least the sum of all p^2
  top_h = 6,           ///< the largest logits, with a share of the entropy
  xtc = 7,             ///< excludes the top choices but the least probable
  temperature = 8,     ///< later steps see the distribution at chain_temperature
  top_k = 9,           ///< the chain_top_k largest logits, and ties
  top_p = 10,          ///< the largest logits, with a mass of chain_top_p, and ties
  min_p = 11,          ///< p of at least chain_min_p times the largest
  adaptive_p = 12,  ///< likelier the nearer p is to adaptive_target; only the last step may be it
};

inline constexpr int kFilterStepBits = 4;  ///< of each step of a chain, the first one lowest
inline constexpr std::uint64_t kFilterSteps = 12;  ///< number of different steps
/// Largest number of steps of a chain.
inline constexpr int kMaxFilterSteps = 64 / kFilterStepBits;

/// Returns the chain of at most kMaxFilterSteps steps, in their order; further steps are left out.
constexpr std::uint64_t filter_chain_of(std::initializer_list<FilterStep> steps) {
  std::uint64_t chain = 0;
  int place = 0;
  for (const FilterStep step : steps) {
    if (place == kMaxFilterSteps) break;
    chain |= static_cast<std::uint64_t>(step) << (kFilterStepBits * place++);
  }
  return chain;
}

/// Order of the filters of a row without a chain (steps 8 and 9).
inline constexpr std::uint64_t kOwnFilterChain = filter_chain_of(
    {FilterStep::top_n_sigma, FilterStep::typical_p, FilterStep::epsilon_cutoff,
     FilterStep::eta_cutoff, FilterStep::p_less, FilterStep::top_h, FilterStep::xtc});

/// Counts of all tokens of the vocabulary: the count of token t in row r is data[r * row_stride +
/// t].
struct TokenCounts {
  const std::int32_t* data = nullptr;  ///< [rows, row_stride]; first element of the matrix; null if
                                       ///< it is not given
  std::int64_t rows = 0;               ///< number of rows, the same as of the logits
  std::int64_t row_stride = 0;         ///< in elements, >= vocab

  /// Returns true if counts are given.
  constexpr bool given() const { return data != nullptr; }
};

/// The logits processing of the rows of a call. All members are optional and belong to the row of
/// logits; by default no step changes a logit. In `prompt` and `output`, an id of -1 is a
/// placeholder for a token that is not known yet. A placeholder counts in the length, and is
/// ignored otherwise.
struct LogitsProcessing {
  PerRequest<float> repetition_penalty = 1.0F;  ///< scalar or [rows]
  PerRequest<float> frequency_penalty = 0.0F;   ///< scalar or [rows]
  PerRequest<float> presence_penalty = 0.0F;    ///< scalar or [rows]

  TokenLists prompt;                         ///< ids of the tokens of the prompt
  TokenLists output;                         ///< ids of the tokens generated so far, oldest first
  BitRows<const std::uint32_t> prompt_mask;  ///< alternative to `prompt`; bit 1: the token is in
                                             ///< the prompt
  TokenCounts output_counts;  ///< alternative to counting the tokens of `output`; bad words still
                              ///< read `output`

  TokenLists bias_ids;            ///< ids of tokens with a bias; of an id listed twice the last
                                  ///< entry counts
  View<const float> bias_values;  ///< [bias_ids.size]; bias of the id at the same place

  PerRequest<std::int32_t> min_tokens = 0;  ///< scalar or [rows], >= 0
  TokenLists stop_ids;                      ///< ids that are banned until the output has min_tokens
                                            ///< tokens
  View<const std::int32_t> output_lengths;  ///< [rows]; without it, the lengths of `output` count

  TokenLists bad_words;         ///< tokens of the bad words of a row, one word after the other
  TokenLists bad_word_lengths;  ///< length of each bad word, >= 1; the lengths of a row sum to the
                                ///< length of its list

  TokenLists allowed_ids;  ///< all other ids are banned; an empty list allows all ids

  TokenLists forced_tokens;  ///< tokens that follow one another forced_delay ids after forced_after
  TokenLists dry_breakers;   ///< ids across which dry_multiplier sees no repetition

  PerRequest<float> top_n_sigma = 0.0F;  ///< scalar or [rows]; >= 0, or -1; the filter is off at
                                         ///< -1, 0 and +inf

  PerRequest<float> typical_p = 1.0F;        ///< scalar or [rows], in [0, 1]; off at 1
  PerRequest<float> epsilon_cutoff = 0.0F;   ///< scalar or [rows], in [0, 1]; off at 0
  PerRequest<float> eta_cutoff = 0.0F;       ///< scalar or [rows], in [0, 1]; off at 0
  PerRequest<std::int32_t> p_less = 0;       ///< scalar or [rows]; 1: on, 0: off
  PerRequest<float> top_h = 1.0F;            ///< scalar or [rows], in [0, 1]; off at 1
  PerRequest<float> xtc_probability = 0.0F;  ///< scalar or [rows], in [0, 1]; off at 0
  PerRequest<float> xtc_threshold = 0.1F;    ///< scalar or [rows], in [0, 1]; above 1/2 no effect
  PerRequest<std::uint64_t> xtc_seed = 0U;   ///< scalar or [rows]; seed of the coins, which are
                                             ///< the same for requests with the same seed

  PerRequest<std::uint64_t> filter_chain = 0U;  ///< scalar or [rows]; filter_chain_of(...), or 0:
                                                ///< the order of steps 8 and 9
  PerRequest<float> chain_temperature = 1.0F;   ///< scalar or [rows], in [2^-126, 2^64]
  PerRequest<std::int32_t> chain_top_k = 0;     ///< scalar or [rows], >= -1; off at -1 and 0
  PerRequest<float> chain_top_p = 1.0F;         ///< scalar or [rows], in [0, 1]; off at 1
  PerRequest<float> chain_min_p = 0.0F;         ///< scalar or [rows], in [0, 1]; off at 0
  PerRequest<float> dynatemp_range = 0.0F;      ///< scalar or [rows], in [0, 2^64]; off at 0
  PerRequest<float> dynatemp_exponent = 1.0F;   ///< scalar or [rows], in [0, 2^64]
  PerRequest<float> adaptive_target = -1.0F;    ///< scalar or [rows], in [-1, 1]; off below 0

  // The rules of histories need `prompt` and `output` as lists: a call with a rule, or with
  // forced_tokens, and prompt_mask or output_counts is refused.
  PerRequest<std::int32_t> penalty_window = -1;   ///< scalar or [rows], >= 0; -1: all tokens
  PerRequest<std::int32_t> counts_of_prompt = 0;  ///< scalar or [rows]; 1: frequency and presence
                                                  ///< penalty count the prompt's tokens, too
  PerRequest<std::int32_t> no_repeat_ngram_size = 0;  ///< scalar or [rows], >= 0; 0: off
  PerRequest<float> dry_multiplier = 0.0F;            ///< scalar or [rows], in [0, 2^64]; off at 0
  PerRequest<float> dry_base = 1.75F;                 ///< scalar or [rows], in [1, 2^64]
  PerRequest<std::int32_t> dry_allowed_length = 2;    ///< scalar or [rows], >= 1
  PerRequest<std::int32_t> dry_window = -1;           ///< scalar or [rows], >= 0; -1: all tokens
  PerRequest<std::int32_t> forced_after = -1;  ///< scalar or [rows]; an id, or -1: the beginning of
                                               ///< the output; an id that is no token is not found
  PerRequest<std::int32_t> forced_delay = 0;   ///< scalar or [rows], >= 0
  PerRequest<float> top_p_decay = 1.0F;        ///< scalar or [rows], above 0, up to 1; off at 1
  PerRequest<float> top_p_min = 1e-6F;         ///< scalar or [rows], above 0, up to 1
  PerRequest<std::int32_t> top_p_reset_id = -1;  ///< scalar or [rows]; an id, or -1: none

  /// Returns true if a member could change a row or make it fail, as a negative length does.
  constexpr bool given() const {
    const auto is_on = [](const auto& parameter, auto off) {
      return parameter.is_array() || parameter.scalar != off;
    };
    return prompt.given() || output.given() || prompt_mask.given() || output_counts.given() ||
           bias_ids.given() || stop_ids.given() || output_lengths.given() || bad_words.given() ||
           allowed_ids.given() || forced_tokens.given() || dry_breakers.given() ||
           is_on(top_n_sigma, 0.0F) || is_on(typical_p, 1.0F) || is_on(epsilon_cutoff, 0.0F) ||
           is_on(eta_cutoff, 0.0F) || is_on(p_less, 0) || is_on(top_h, 1.0F) ||
           is_on(xtc_probability, 0.0F) || is_on(xtc_threshold, 0.1F) || is_on(xtc_seed, 0U) ||
           is_on(filter_chain, 0U) || is_on(chain_temperature, 1.0F) || is_on(chain_top_k, 0) ||
           is_on(chain_top_p, 1.0F) || is_on(chain_min_p, 0.0F) || is_on(dynatemp_range, 0.0F) ||
           is_on(dynatemp_exponent, 1.0F) || is_on(adaptive_target, -1.0F) ||
           is_on(penalty_window, -1) || is_on(counts_of_prompt, 0) ||
           is_on(no_repeat_ngram_size, 0) || is_on(dry_multiplier, 0.0F) ||
           is_on(dry_base, 1.75F) || is_on(dry_allowed_length, 2) || is_on(dry_window, -1) ||
           is_on(forced_after, -1) || is_on(forced_delay, 0) || is_on(top_p_decay, 1.0F) ||
           is_on(top_p_min, 1e-6F) || is_on(top_p_reset_id, -1);
  }
};

}  // namespace fairdraw
