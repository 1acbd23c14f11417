// Logits processing: what an engine does to a row of logits before temperature and filters.
//
// All of it is sparse: a row differs from the caller's at tokens that a list names, and in the
// tokens that are banned. `sample` applies it while it reads the row; no processed row is stored.
//
// Order, per row; each arithmetic operation is a float32 one, rounded once, so that backends
// agree bit for bit (the order and the formulas of vLLM, vllm/v1/sample; the order of the bias
// is after the penalties here):
//   1. repetition penalty r, of tokens in prompt or output:  x > 0 ? x / r : x * r.
//   2. frequency penalty f, of tokens in the output:         x - (f * count).
//      presence penalty p, of tokens in the output:          x - p.
//   3. logit bias b:                                         x + b; -inf bans the token.
//   4. minimum tokens: stop ids are banned while the output is shorter than min_tokens.
//   5. bad words: the last id of a word of L ids is banned where the output ends with the
//      L - 1 ids before it. A word of one id is always banned.
//   6. allowed ids: others are banned. An empty list: all are allowed.
//   7. SampleRequest::allowed, the packed bitmask.
//   8. top_n_sigma n: of the tokens left, those more than n sigma below the largest logit are
//      banned. Distances to it count in steps of 2^-20, rounded down, at most 2^31 - 1 of them, so
//      that sums are integers and their order does not show: of N tokens with distances q, D = N
//      sum(q^2) - sum(q)^2, and a token stays where q <= n sqrt(D) / N, each operation a double
//      one, rounded once. Sigma is the population's, as in llama.cpp (that of torch.std is a
//      sample's).
// A row is checked for NaN and +inf before all of this, and a finite logit that a step makes
// infinite fails its row (processing_overflow). Steps that are neutral (r = 1; f = 0; p = 0) do not
// touch the logit. A row that has no token left fails with no_allowed_token. The first of several
// faults counts: parameters (temperature, top_k, top_p, min_p, penalties, min_tokens, top_n_sigma);
// values of the row (nan_input, infinite_input); lists in the order of the steps (invalid_history,
// invalid_logit_bias, invalid_min_tokens, invalid_bad_words, invalid_allowed_ids); overflow. Every
// list that is given has its begin and its end checked. All entries are checked, except in
// histories: ids of `prompt` are checked only if r is not 1; ids of `output`, or `output_counts`,
// only if a penalty is not neutral.
//
// Definition: vLLM (vllm/v1/sample) for steps 1 to 6, llama.cpp for top_n_sigma, and
// docs/semantics.md for their order.
#pragma once

#include <cstdint>

#include "fairdraw/token_lists.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// A repetition penalty lies in [2^-64, 2^64]; frequency and presence penalties, and biases but
/// -inf, in [-2^64, 2^64]. Engines allow less; within these no step can make a NaN.
inline constexpr float kSmallestRepetitionPenalty = 0x1p-64F;
/// Largest absolute value of penalties and biases.
inline constexpr float kLargestPenalty = 0x1p64F;

/// Counts of all tokens of the vocabulary: row r's count of token t is data[r * row_stride + t].
struct TokenCounts {
  const std::int32_t* data = nullptr;  ///< [rows, row_stride]; null: not given
  std::int64_t rows = 0;               ///< as many as rows of logits
  std::int64_t row_stride = 0;         ///< in elements, >= vocab

  /// True where there are counts.
  constexpr bool given() const { return data != nullptr; }
};

/// Processing of the rows of a call. All members are optional and belong to the row of logits;
/// default values are neutral. In `prompt` and `output` an id of -1 is a placeholder: a position
/// whose token is not known yet. It has a place in the length and is otherwise passed over.
struct LogitsProcessing {
  PerRequest<float> repetition_penalty = 1.0F;  ///< scalar or [rows]
  PerRequest<float> frequency_penalty = 0.0F;   ///< scalar or [rows]
  PerRequest<float> presence_penalty = 0.0F;    ///< scalar or [rows]

  TokenLists prompt;                         ///< ids of the prompt
  TokenLists output;                         ///< ids generated so far, oldest first
  BitRows<const std::uint32_t> prompt_mask;  ///< instead of `prompt`: bit 1: in the prompt
  TokenCounts output_counts;  ///< instead of counting in `output`; bad words still read `output`

  TokenLists bias_ids;            ///< tokens with a bias; of an id listed twice the last counts
  View<const float> bias_values;  ///< [bias_ids.size]: of the id at the same place

  PerRequest<std::int32_t> min_tokens = 0;  ///< scalar or [rows], >= 0
  TokenLists stop_ids;                      ///< banned until the output has min_tokens
  View<const std::int32_t> output_lengths;  ///< [rows]; without it, the lengths of `output`

  TokenLists bad_words;         ///< the words of a row, one after the other
  TokenLists bad_word_lengths;  ///< of each word, >= 1; their sum is the row's list's length

  TokenLists allowed_ids;  ///< all other ids are banned; an empty list allows all

  PerRequest<float> top_n_sigma = 0.0F;  ///< scalar or [rows], >= 0, or -1; -1, 0 and +inf: off

  /// True where some member could change a row, or fail it: a negative length does.
  constexpr bool given() const {
    return prompt.given() || output.given() || prompt_mask.given() || output_counts.given() ||
           bias_ids.given() || stop_ids.given() || output_lengths.given() || bad_words.given() ||
           allowed_ids.given() || top_n_sigma.is_array() || top_n_sigma.scalar != 0.0F;
  }
};

}  // namespace fairdraw
