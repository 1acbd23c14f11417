/* A batch of rows to sample: the input of every sampler under test, which is built in, a plugin, or
 * written in Python.
 *
 * The header is plain C11 without dependencies. All pointers point to host memory, unless a
 * sampler's description says otherwise. Optional arrays may be NULL. This file defines the fields
 * of a batch, and plugin_abi.h next to this file defines the statuses; a sampler needs nothing
 * else. */
#ifndef FAIRDRAW_HARNESS_CONTRACT_BATCH_H
#define FAIRDRAW_HARNESS_CONTRACT_BATCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One list of token ids per row, all in one buffer: the list of row r is data[begins[r]] to
 * data[begins[r] + lengths[r]], exclusive. A row fails if its list is not within [0, size). */
typedef struct fairdraw_token_lists {
  const int32_t* data;    /**< [size] the token ids of all lists, one after another */
  int64_t size;           /**< number of token ids in `data` */
  const int64_t* begins;  /**< [rows] */
  const int32_t* lengths; /**< [rows]; NULL if there are no lists */
} fairdraw_token_lists;

/** Changes of the logits x of a row before temperature and filters, in this order:
 *   1. repetition penalty r, of tokens in prompt or output:  x > 0 ? x / r : x * r
 *   2. frequency penalty f, of tokens in the output:         x - (f * count)
 *      presence penalty p, of tokens in the output:          x - p
 *      counts_of_prompt 1: count is that of prompt and output together; penalty_window w >= 0:
 *      steps 1 and 2 see only the last w tokens of prompt and output together
 *   3. bias b:                                               x + b; -inf bans the token
 *      dry_multiplier m, of tokens that would repeat ids:    x - m * dry_base^(n - a)
 *      for the last dry_window ids of prompt and output together, and a = dry_allowed_length: n is
 *      the number of ids before a place that equal the last ids, one by one, after the last of
 *      dry_breakers; the id at the place, if it is no breaker, gets the penalty where n >= a, for
 *      its largest n. Each product is rounded, and at most 2^64
 *   4. min_tokens: stop ids are banned while the output is shorter than min_tokens
 *   5. bad words: the last id of a word of L ids is banned if the output ends with the L - 1 ids
 *      before it; a word of one id is always banned. no_repeat_ngram_size n >= 1: a token is banned
 *      if it would end n ids that prompt and output together have already, one after the other
 *   6. allowed ids: all other ids are banned; an empty list allows all ids
 *      forced_tokens: entry i stands in place of the allowed ids if forced_delay + i ids follow the
 *      last forced_after in prompt and output together (-1: if the output has so many), unless the
 *      first forced_delay of them have the list's last entry
 *   7. fairdraw_batch.allowed, the packed mask
 *   8. top_n_sigma n: of the tokens left, those more than n sigma below the largest logit are
 *      banned; sigma is the standard deviation of their logits, of the population. In integers: of
 *      N tokens with q = min(floor((largest - x) * 2^20), 2^31 - 1) and D = N sum(q^2) - sum(q)^2
 *      those stay where q <= n sqrt(D) / N, in double. 0, -1 and +inf are off
 *   9. filters by probability, each of the tokens left by those before it, of which p is the
 *      distribution at temperature 1 and H the entropy: typical_p t keeps a token if the mass whose
 *      |-ln p - H| is smaller than the token's is below t, and always the nearest; epsilon_cutoff e
 *      keeps p >= e; eta_cutoff e keeps p >= min(e, sqrt(e) exp(-H)); p_less keeps p >= sum p^2;
 *      top_h a keeps a token if the tokens with at least its logit, alone, have an entropy of at
 *      most a H; these four always keep the largest logit; xtc_threshold t keeps p at most the
 *      smallest one that is at least t, if the coin of xtc_probability says so: the upper half of
 *      the word with the seed xtc_seed, the output's length as offset, and purpose 5, below 2^32
 *      times xtc_probability. 1, 0, 0, 0, 1 and xtc_probability 0 are off. Samplers that claim
 *      FAIRDRAW_EXACT_INTEGER have the filters in the integers of fairdraw's specification
 *      filter_chain other than 0: the steps that it names stand in place of steps 8 and 9, in its
 *      order, 4 bits for each, the first one lowest: 1 top_n_sigma, 2 typical_p, 3 epsilon_cutoff,
 *      4 eta_cutoff, 5 p_less, 6 top_h, 7 xtc, 8 temperature (the steps after it see p at
 *      chain_temperature), 9 top_k (logits of at least the chain_top_k-th largest stay), 10 top_p
 *      (a token stays if the mass of larger logits is below chain_top_p), 11 min_p (p of at least
 *      chain_min_p times the largest stays), 12 adaptive_p, only as the last step: a token gets the
 *      logit 5 - 10 d d / (1 + d) with d = |p - adaptive_target| / 0.3, in double, from left to
 *      right, rounded to float32. The parameters of the batch come after the chain
 *
 * dynatemp_range r above 0 changes no logit, but the row's temperature T, unless that is 0. With h,
 * the entropy of the tokens left at temperature 1 by the logarithm of their number (1 for one
 * token), and l = max(T - r, 0), it is l + (T + r - l) h^dynatemp_exponent, at least 2^-126, at
 * most 2^64.
 *
 * top_p_decay d below 1 changes no logit, but the row's top_p, in float32: after each token of the
 * output, top_p is max(top_p * d, top_p_min), or after top_p_reset_id that of the batch. 0 stays 0.
 *
 * A banned token has the logit -inf. Each operation on logits is a float32 operation, rounded to
 * nearest, with subnormals, and not contracted with the next operation. The number count is how
 * often a token occurs in the output (or its entry of output_counts, if given), as the nearest
 * float32. Samplers that do not claim FAIRDRAW_EXACT_INTEGER may be off by as much as float32
 * rounding explains. Neutral values (r = 1, f = 0, p = 0) do not change the logit, and empty lists
 * change nothing.
 *
 * The ranges are r in [2^-64, 2^64], and [-2^64, 2^64] for f, p, and biases other than -inf. A
 * min_tokens is >= 0, n is >= 0 or -1, the filters of step 9 are in [0, 1], and the rules of
 * histories have the ranges that their fields state. Ids are in [0, vocab), or -1 in prompt and
 * output, where an id below 0 equals no id. A row is checked for NaN and +inf before any of these
 * changes. A step that makes a finite logit infinite fails the row (processing_overflow), even if a
 * later step bans that token.
 *
 * Only parameters that a step reads are checked. The begin and the end of every given list are
 * checked. All entries of a list are checked, except in dry_breakers, in allowed_ids while a token
 * is forced, and in histories: entries of prompt are checked only if r is not 1 or they are
 * counted, and entries of output or output_counts only if one of r, f and p is not neutral. Bad
 * words are compared with the last ids of `output` as given, so an id of -1 never matches. The
 * header plugin_abi.h says which of several faults a row reports. */
typedef struct fairdraw_processing {
  const float* repetition_penalty; /**< [rows], like all parameters; NULL: no processing */
  const float* frequency_penalty;  /**< [rows] */
  const float* presence_penalty;   /**< [rows] */
  const int32_t* min_tokens;       /**< [rows] */
  fairdraw_token_lists prompt;     /**< -1: a position whose token is not known yet */
  fairdraw_token_lists output;     /**< likewise; oldest first */
  const uint32_t* prompt_mask;     /**< [rows, ceil(vocab / 32)] instead of prompt; optional */
  const int32_t* output_counts;    /**< [rows, vocab] instead of counts of output; optional */
  const int32_t* output_lengths;   /**< [rows] output lengths, compared with min_tokens */
  fairdraw_token_lists bias_ids;   /**< if an id is listed twice, the last bias counts */
  const float* bias_values;        /**< [bias_ids.size] biases; -inf bans the token */
  fairdraw_token_lists stop_ids;   /**< ids banned while the output is shorter than min_tokens */
  fairdraw_token_lists bad_words;  /**< all words of a row, one after the other */
  fairdraw_token_lists bad_word_lengths; /**< length of each word, >= 1; sums to the row's list */
  fairdraw_token_lists allowed_ids;      /**< empty: all */
  fairdraw_token_lists
      forced_tokens;                 /**< given with rules of histories alone, as dry_breakers is */
  fairdraw_token_lists dry_breakers; /**< ids at which repetitions end; not checked */
  const float* top_n_sigma;          /**< [rows]; NULL: off; requires FAIRDRAW_CAN_TOP_N_SIGMA */
  /** The first of the filters by probability, [rows], in [0, 1]; NULL: all are off; they and their
   * chain require FAIRDRAW_CAN_PROBABILITY_FILTERS */
  const float* typical_p;         /**< [rows]; 1: off */
  const float* epsilon_cutoff;    /**< [rows]; 0: off */
  const float* eta_cutoff;        /**< [rows]; 0: off */
  const int32_t* p_less;          /**< [rows]; 1: on, 0: off */
  const float* top_h;             /**< [rows]; 1: off */
  const float* xtc_probability;   /**< [rows]; 0: off */
  const float* xtc_threshold;     /**< [rows] */
  const uint64_t* xtc_seed;       /**< [rows], any value */
  const uint64_t* filter_chain;   /**< [rows]; 0: the order of steps 8 and 9 */
  const float* chain_temperature; /**< [rows], in [2^-126, 2^64] */
  const int32_t* chain_top_k;     /**< [rows], >= -1; -1 and 0: off */
  const float* chain_top_p;       /**< [rows]; 1: off */
  const float* chain_min_p;       /**< [rows]; 0: off */
  const float* dynatemp_range;    /**< [rows], in [0, 2^64]; 0: off */
  const float* dynatemp_exponent; /**< [rows], in [0, 2^64] */
  const float* adaptive_target;   /**< [rows], in [-1, 1]; below 0: off */
  /** The first of the rules of histories, [rows]; NULL: all have their neutral value. They require
   * FAIRDRAW_CAN_HISTORY_RULES, and come only with prompt and output as lists */
  const int32_t* penalty_window;       /**< [rows], >= 0; -1: all tokens */
  const int32_t* counts_of_prompt;     /**< [rows]; 1: on, 0: off */
  const int32_t* no_repeat_ngram_size; /**< [rows], >= 0; 0: off */
  const float* dry_multiplier;         /**< [rows], in [0, 2^64]; 0: off */
  const float* dry_base;               /**< [rows], in [1, 2^64] */
  const int32_t* dry_allowed_length;   /**< [rows], >= 1 */
  const int32_t* dry_window;           /**< [rows], >= 0; -1: all tokens */
  const int32_t* forced_after;         /**< [rows], an id, or -1: the beginning of the output */
  const int32_t* forced_delay;         /**< [rows], >= 0 */
  const float* top_p_decay;            /**< [rows], above 0, up to 1; 1: off */
  const float* top_p_min;              /**< [rows], above 0, up to 1 */
  const int32_t* top_p_reset_id;       /**< [rows], an id, or -1: none */
} fairdraw_processing;

/* The ways in which keyed words choose tokens: the values of fairdraw_batch.mark_scheme. */
#define FAIRDRAW_MARK_BY_KEY 0u          /**< the words alone choose among the kept tokens */
#define FAIRDRAW_MARK_BY_KEY_AND_SEED 1u /**< the words change probabilities of kept tokens */
#define FAIRDRAW_MARK_GREEN_LIST 2u      /**< the words raise logits, before the filters */

/** Rows to sample, the parameters of each row, and the arrays that receive the results. */
typedef struct fairdraw_batch {
  uint32_t struct_size; /**< sizeof(fairdraw_batch) in the caller's code */

  /** Contents of the rows: 0 for logits, 1 for probabilities, which are finite and >= 0, in any
   * scale. for rows of probabilities, the temperature has no meaning */
  uint32_t input;
  /** Type of the rows x vocab values, whose rows are row_stride values apart, at any alignment */
  uint32_t dtype;     /**< 0 float32, 1 float16, 2 bfloat16 */
  const void* logits; /**< [rows, row_stride] the values of all rows */
  int64_t rows;       /**< number of rows */
  int64_t vocab;      /**< values of a row */
  int64_t row_stride; /**< in values, >= vocab */

  /** [rows]; the four filter parameters have one value per row of logits and are never NULL */
  const float* temperature;
  const int32_t* top_k;  /**< [rows], >= -1; 0, -1 and k >= vocab turn it off */
  const float* top_p;    /**< [rows], in [0, 1]; 0 is greedy, 1 is off */
  const float* min_p;    /**< [rows], in [0, 1]; 0 turns it off */
  uint32_t tie_rule;     /**< tie rule: 0 keep_all, 1 lowest_id */
  uint32_t filter_order; /**< 0 top_k_first, 1 joint */

  /** [rows, allowed_stride] words: packed masks of allowed tokens; optional */
  const uint32_t* allowed;
  int64_t allowed_stride; /**< distance of rows in words, >= ceil(vocab / 32) */
  /** [rows]: 0 marks a row as padding; one byte per row; optional */
  const uint8_t* active;

  /** [outputs]: output i samples row indices[i], or row i if indices is NULL */
  const int32_t* indices;
  int64_t outputs;     /**< number of outputs */
  int32_t num_samples; /**< number of independent tokens per output */

  /** 0 if each output has a seed and an offset; 1 if the call has one seed and one offset */
  int32_t seed_is_scalar;
  const uint64_t* seed;   /**< [outputs], or [1] */
  const uint64_t* offset; /**< [outputs], or [1] */
  /** [outputs, num_samples] random words to draw with, instead of those that the seeds give;
   * optional, and only for samplers that declare scripted_words */
  const uint64_t* words;

  /** The first of the results, all of which are optional (NULL) except tokens. An output without a
   * token gets tokens -1, support_size 0 and log-probabilities -inf; its row gets mask 0 and probs
   * 0, or, if the row is padding, an unchanged mask and unchanged probs */
  int32_t* tokens;         /**< [outputs, num_samples] */
  int32_t* statuses;       /**< [outputs] values of enum fairdraw_row_status */
  int32_t* support_size;   /**< [outputs] */
  float* logprob;          /**< [outputs, num_samples] log-probability of the token at the row's
                            * temperature (at 1 for temperature 0), before min_p, top_k and
                            * top_p */
  float* logprob_filtered; /**< [outputs, num_samples] log-probability among the survivors */
  uint32_t* mask;          /**< [rows, mask_stride] words of survivors; bits beyond vocab are 0 */
  int64_t mask_stride;     /**< distance of rows in words, >= ceil(vocab / 32) */
  float* probs;            /**< [rows, probs_stride] renormalised probabilities */
  int64_t probs_stride;    /**< in values, >= vocab */

  /** Processing of logits, for samplers that declare it; rows of probabilities have none */
  fairdraw_processing processing;
  /** Log-probabilities in the forms in which engines report them. All of them are optional, and
   * only for samplers that declare the mode (and, for ranks, the rule). Let x be a token's logit as
   * given, x' the logit after processing, and T the temperature. The token's value in each mode is:
   *   - 0, raw_logits: x as float32;
   *   - 1, raw_logprobs: ln softmax(x), at temperature 1, before processing, bans and filters;
   *   - 2, processed_logits: x' / T, one float32 division; x' if T is 0;
   *   - 3, processed_logprobs: ln softmax(x' / T) over the tokens that the filters leave.
   *
   * Logarithms are natural. The value -inf means that the token cannot be drawn: in raw modes its
   * logit is -inf, in processed modes it is banned or the filters drop it (greedy rows keep one
   * token). All other values are finite: a value beyond float32's range is replaced by the largest
   * finite float32. No value is NaN. Tokens are ordered by decreasing logit (x in raw modes, x' in
   * processed modes), and by increasing id if logits are equal; the logits decide, not the rounded
   * values. Outputs without a token get values -inf, ids -1 and ranks 0, and their rows in
   * report_all get -inf; rows that are padding are not changed. */
  uint32_t report_mode;
  /** Rule for ranks. 0, position: the token's place in the order of report_mode, from 1 on, so that
   * all ranks differ. 1, at_least: the number of values that are >= the token's own, so that equal
   * tokens share the last of their places */
  uint32_t rank_rule;
  int32_t top_n;             /**< 0 to 128 */
  float* report_values;      /**< [outputs, num_samples] values of the drawn tokens */
  int32_t* report_ranks;     /**< [outputs, num_samples] ranks from 1 on; 0: the value is -inf */
  int32_t* report_top_ids;   /**< [outputs, top_n] ids, best first; -1: no further token */
  float* report_top_values;  /**< [outputs, top_n] values of these ids; -inf: no further token */
  float* report_all;         /**< [rows, report_all_stride] values of all tokens */
  int64_t report_all_stride; /**< in values, >= vocab */

  /** Marks by secret keys (watermarks), only for samplers that declare the scheme. The context of a
   * row is the last mark_window of the ids that its request has generated, with ids of -1 before
   * the first one. Key and context give each token a random word, and the words choose the row's
   * token, in one of three ways:
   *   - FAIRDRAW_MARK_BY_KEY: the words alone choose among the tokens that the filters keep. Rows
   *     with equal logits, parameters, keys and contexts have equal tokens, whatever their seeds;
   *   - FAIRDRAW_MARK_BY_KEY_AND_SEED: the words change the probabilities of the tokens that the
   *     filters keep, and the row's seed and offset draw;
   *   - FAIRDRAW_MARK_GREEN_LIST: the words choose tokens whose logits are raised before the
   *     filters, and the row's seed and offset draw.
   *
   * Over random keys the first two give a token the distribution of an unmarked row. A row is not
   * marked if its key is 0, or if its context, without ids of -1, has occurred before in its own
   * ids: such a row draws as in a call without keys. Apart from this, no token depends on the ids
   * before the context, and none depends on keys and ids of other rows. Such a call has logits, no
   * processing and no indices, and draws one token for each row. */
  uint32_t mark_scheme;     /**< one of FAIRDRAW_MARK_BY_KEY to FAIRDRAW_MARK_GREEN_LIST */
  int32_t mark_window;      /**< number of ids of a context, 1 to 8 */
  const uint64_t* mark_key; /**< [rows] 0: the row is not marked; NULL: no row is marked */
  /** [rows, mark_output_size] all ids that each request has generated, oldest first, after ids of
   * -1 where there are fewer; given with mark_key */
  const int32_t* mark_output;
  int64_t mark_output_size; /**< >= mark_window */
} fairdraw_batch;

#ifdef __cplusplus
}
#endif

#endif
