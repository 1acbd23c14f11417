/* The inputs of every sampler under test: built-in, plugin or Python. A batch of rows to sample.
 *
 * Plain C11, no dependency. All pointers are host memory, unless a sampler's description says
 * otherwise. Optional arrays are NULL. This file defines the fields, and plugin.h next to it the
 * statuses: nothing else is needed to write a sampler. */
#ifndef FAIRDRAW_HARNESS_CONTRACT_BATCH_H
#define FAIRDRAW_HARNESS_CONTRACT_BATCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One list of token ids per row, all in one buffer: list r is data[begins[r]] to data[begins[r] +
 * lengths[r]], exclusive. A row fails if its list is not within [0, size). */
typedef struct fairdraw_token_lists {
  const int32_t* data;    /**< [size]; the ids of all lists */
  int64_t size;           /**< of data */
  const int64_t* begins;  /**< [rows] */
  const int32_t* lengths; /**< [rows]; NULL: no lists */
} fairdraw_token_lists;

/** Changes of the logits x of a row before temperature and filters, in this order:
 *   1. repetition penalty r, of tokens in prompt or output:  x > 0 ? x / r : x * r
 *   2. frequency penalty f, of tokens in the output:         x - (f * count)
 *      presence penalty p, of tokens in the output:          x - p
 *   3. bias b:                                               x + b; -inf bans the token
 *   4. min_tokens: stop ids are banned while the output is shorter than min_tokens
 *   5. bad words: the last id of a word of L ids is banned where the output ends with the L - 1 ids
 *      before it; a word of one id is always banned
 *   6. allowed ids: all others are banned; an empty list allows all
 *   7. fairdraw_batch.allowed, the packed mask
 *   8. top_n_sigma n: of the tokens left, those more than n sigma below the largest logit are
 *      banned; sigma is the standard deviation of their logits, of the population. In integers: of
 *      N tokens with q = min(floor((largest - x) * 2^20), 2^31 - 1) and D = N sum(q^2) - sum(q)^2
 *      those stay where q <= n sqrt(D) / N, in double. 0, -1 and +inf are off
 * A banned token has the logit -inf. Each operation on logits is one of float32, rounded to nearest
 * and not contracted with the next, with subnormals; count is the float32 nearest to it, and how
 * often a token stands in the output (in output_counts where that is given). Samplers that do not
 * claim FAIRDRAW_EXACT_INTEGER may be off by what float32 rounding explains. Neutral values (r = 1,
 * f = 0, p = 0) do not touch the logit, and empty lists change nothing.
 *
 * Ranges: r in [2^-64, 2^64]; f, p, and biases but -inf in [-2^64, 2^64]; min_tokens >= 0; n >= 0
 * or -1; ids in [0, vocab), in prompt and output -1 too. A row is checked for NaN and +inf before
 * any of these changes. A step that makes a finite logit infinite fails the row
 * (processing_overflow), also where a later step bans that token.
 *
 * Only parameters that are read are checked. The begin and the end of every given list are checked.
 * All entries of a list are checked, except in histories: those of prompt only if r is not 1; those
 * of output or output_counts only if one of r, f and p is not neutral. Bad words are compared with
 * the last ids of `output` unchanged: an id of -1 equals none. plugin.h has the order in which
 * faults count. */
typedef struct fairdraw_processing {
  const float* repetition_penalty; /**< [rows], like all parameters; NULL: no processing at all */
  const float* frequency_penalty;  /**< [rows] */
  const float* presence_penalty;   /**< [rows] */
  const int32_t* min_tokens;       /**< [rows] */
  fairdraw_token_lists prompt;     /**< -1 is a position whose token is not known yet */
  fairdraw_token_lists output;     /**< likewise; oldest first */
  const uint32_t* prompt_mask;     /**< [rows, ceil(vocab / 32)], replaces prompt; optional */
  const int32_t* output_counts;    /**< [rows, vocab], replaces counting in output; optional */
  const int32_t* output_lengths;   /**< [rows], for min_tokens */
  fairdraw_token_lists bias_ids;   /**< of an id that is listed twice, the last bias counts */
  const float* bias_values;        /**< [bias_ids.size] biases; -inf bans the token */
  fairdraw_token_lists stop_ids;   /**< ids banned while the output is shorter than min_tokens */
  fairdraw_token_lists bad_words;  /**< the words of a row, one after the other */
  fairdraw_token_lists bad_word_lengths; /**< of each word, >= 1; they add up to the row's list */
  fairdraw_token_lists allowed_ids;      /**< empty: all */
  const float* top_n_sigma; /**< [rows]; NULL: off; of samplers with FAIRDRAW_CAN_TOP_N_SIGMA */
} fairdraw_processing;

/** Rows to sample, with the parameters of each, and the arrays that results go to. */
typedef struct fairdraw_batch {
  uint32_t struct_size; /**< sizeof(fairdraw_batch) of the caller */

  /** contents of the rows: 0 logits; 1 probabilities, finite and >= 0, in any scale. With
     probabilities the temperature has no meaning */
  uint32_t input;
  /** logits: rows x vocab values of dtype, row_stride values apart, any alignment */
  uint32_t dtype;     /**< 0 float32, 1 float16, 2 bfloat16 */
  const void* logits; /**< [rows, row_stride], any alignment */
  int64_t rows;       /**< number of rows */
  int64_t vocab;      /**< values of a row */
  int64_t row_stride; /**< in values, >= vocab */

  /** [rows]: filters, one value a row of logits; never NULL */
  const float* temperature;
  const int32_t* top_k;  /**< [rows], >= -1; 0, -1 and k >= vocab are off */
  const float* top_p;    /**< [rows], in [0, 1]; 0 is greedy, 1 is off */
  const float* min_p;    /**< [rows], in [0, 1]; 0 is off */
  uint32_t tie_rule;     /**< tie rule: 0 keep_all, 1 lowest_id */
  uint32_t filter_order; /**< 0 top_k_first, 1 joint */

  /** [rows, allowed_stride] words: packed masks of allowed tokens; optional */
  const uint32_t* allowed;
  int64_t allowed_stride; /**< in words, >= ceil(vocab / 32) */
  /** [rows]: 0 marks a row as padding; one byte per row; optional */
  const uint8_t* active;

  /** outputs: output i samples row indices[i], or row i where indices is NULL */
  const int32_t* indices;
  int64_t outputs;     /**< number of outputs */
  int32_t num_samples; /**< tokens per output, drawn independently */

  /** seeds and offsets: one an output, or one for the call where seed_is_scalar is 1 */
  int32_t seed_is_scalar;
  const uint64_t* seed;   /**< [outputs], or [1] */
  const uint64_t* offset; /**< [outputs], or [1] */
  /** [outputs, num_samples]: random words to draw with instead of those of the seeds; optional, and
     only for samplers that declare scripted_words */
  const uint64_t* words;

  /** results; all but tokens optional (NULL). An output without a token has tokens -1, support_size
     0 and log-probabilities -inf; its row has mask and probs 0, or, where it is padding, as they
     were */
  int32_t* tokens;         /**< [outputs, num_samples] */
  int32_t* statuses;       /**< [outputs], enum fairdraw_row_status of plugin.h */
  int32_t* support_size;   /**< [outputs] */
  float* logprob;          /**< [outputs, num_samples], of the token at the row's temperature (at 1
                              where that is 0), before min_p, top_k and top_p */
  float* logprob_filtered; /**< [outputs, num_samples], among the survivors: at most 0 */
  uint32_t* mask;          /**< [rows, mask_stride] words, the survivors; bits beyond vocab are 0 */
  int64_t mask_stride;     /**< in words, >= ceil(vocab / 32) */
  float* probs;            /**< [rows, probs_stride], renormalised */
  int64_t probs_stride;    /**< in values, >= vocab */

  /** only for samplers that declare processing, and only of logits */
  fairdraw_processing processing;
  /** Log-probabilities as engines report them, all optional: only for samplers that declare the
     mode, and of ranks the rule. A token's value, of its logit x as it came and x' after
     processing, at temperature T, by mode:
       - 0, raw_logits: x as float32;
       - 1, raw_logprobs: ln softmax(x), at temperature 1, nothing processed, banned or filtered;
       - 2, processed_logits: x' / T, one float32 division; x' where T is 0;
       - 3, processed_logprobs: ln softmax(x' / T) over the tokens that the filters leave.
     Logarithms are natural. -inf means that there is no such token: in raw modes one whose logit is
     -inf, in processed modes one that is banned or that the filters drop (greedy rows leave one).
     All other values are finite: beyond float32's range they are its largest finite number. There
     is no NaN. Tokens are in order of falling logit (raw modes x, else x'), and of rising id where
     these are equal: logits decide and not rounded values. Outputs without a token get values -inf,
     ids -1 and ranks 0, their rows in report_all -inf; rows that are padding are left untouched. */
  uint32_t report_mode;
  /** 0 position: the token's place in that order, from 1 on, no two alike; 1 at_least: how many
     values are >= its own, so that equal tokens share the last of their places */
  uint32_t rank_rule;
  int32_t top_n;             /**< 0 to 128 */
  float* report_values;      /**< [outputs, num_samples], of the tokens */
  int32_t* report_ranks;     /**< [outputs, num_samples], from 1 on; 0: the value is -inf */
  int32_t* report_top_ids;   /**< [outputs, top_n], value descending, then id; -1: there are less */
  float* report_top_values;  /**< [outputs, top_n]; -inf: there are less */
  float* report_all;         /**< [rows, report_all_stride], of every token */
  int64_t report_all_stride; /**< in values, >= vocab */
} fairdraw_batch;

#ifdef __cplusplus
}
#endif

#endif
