/* What every sampler under test is given: built-in, plugin or Python. A batch of rows to sample, a
 * batch of drafted chains to verify, or requests of an engine with drafted tokens.
 *
 * Plain C11, no dependency. All pointers are host memory, unless a sampler's description says
 * otherwise. Optional arrays are NULL. What a field means is said here, and what a status means in
 * plugin.h next to this file: nothing else is needed to write a sampler.
 */
#ifndef FAIRDRAW_HARNESS_CONTRACT_BATCH_H
#define FAIRDRAW_HARNESS_CONTRACT_BATCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One list of token ids a row, all in one buffer: list r is data[begins[r]] to data[begins[r] +
 * lengths[r]], exclusive. A list that does not lie in [0, size) fails its row. */
typedef struct fairdraw_token_lists {
  const int32_t* data;
  int64_t size;           /* of data */
  const int64_t* begins;  /* [rows] */
  const int32_t* lengths; /* [rows]; NULL: no lists */
} fairdraw_token_lists;

/* What happens to the logits x of a row before temperature and filters, in this order:
 *   1. repetition penalty r, of tokens in prompt or output:  x > 0 ? x / r : x * r
 *   2. frequency penalty f, of tokens in the output:         x - (f * count)
 *      presence penalty p, of tokens in the output:          x - p
 *   3. bias b:                                               x + b; -inf bans the token
 *   4. min_tokens: stop ids are banned while the output is shorter than min_tokens
 *   5. bad words: the last id of a word of L ids is banned where the output ends with the L - 1 ids
 *      before it; a word of one id is always banned
 *   6. allowed ids: all others are banned; an empty list allows all
 *   7. fairdraw_batch.allowed, the packed mask
 * A banned token has the logit -inf. Each operation above is one of float32, rounded to nearest and
 * not contracted with the next, with subnormals; count is the float32 nearest to it, and how often
 * a token stands in the output (in output_counts where that is given). Samplers that do not claim
 * FAIRDRAW_EXACT_INTEGER may be off by what float32 rounding explains. Neutral values (r = 1, f =
 * 0, p = 0) do not touch the logit, and empty lists change nothing.
 *
 * Ranges: r in [2^-64, 2^64]; f, p, and biases but -inf in [-2^64, 2^64]; min_tokens >= 0; ids in
 * [0, vocab), in prompt and output -1 too. NaN and +inf are looked for in the row as it came. A
 * step that makes a finite logit infinite fails the row (processing_overflow), also where a later
 * step bans that token.
 *
 * What is read is what is checked. Where a list begins and ends is checked wherever it is given.
 * Its entries are checked whole, but for histories: prompt only where r is not 1; output or
 * output_counts only where one of r, f and p is not neutral. Bad words compare with the last ids of
 * `output` as they are: an id of -1 equals none. plugin.h has the order in which faults count. */
typedef struct fairdraw_processing {
  const float* repetition_penalty; /* [rows], as all parameters; NULL: no processing at all */
  const float* frequency_penalty;
  const float* presence_penalty;
  const int32_t* min_tokens;
  fairdraw_token_lists prompt;    /* -1 is a position whose token is not known yet */
  fairdraw_token_lists output;    /* likewise; oldest first */
  const uint32_t* prompt_mask;    /* [rows, ceil(vocab / 32)], instead of prompt; optional */
  const int32_t* output_counts;   /* [rows, vocab], instead of counting in output; optional */
  const int32_t* output_lengths;  /* [rows], for min_tokens */
  fairdraw_token_lists bias_ids;  /* of an id listed twice the last counts */
  const float* bias_values;       /* [bias_ids.size]; -inf bans */
  fairdraw_token_lists stop_ids;  /* banned while the output is shorter than min_tokens */
  fairdraw_token_lists bad_words; /* the words of a row, one after the other */
  fairdraw_token_lists bad_word_lengths;
  fairdraw_token_lists allowed_ids; /* empty: all */
} fairdraw_processing;

typedef struct fairdraw_batch {
  uint32_t struct_size; /* sizeof(fairdraw_batch) of the caller */

  /* what the rows hold: 0 logits; 1 probabilities, finite and >= 0, in any scale: then the
     temperature means nothing */
  uint32_t input;
  /* logits: rows x vocab values of dtype, row_stride values apart, any alignment */
  uint32_t dtype; /* 0 float32, 1 float16, 2 bfloat16 */
  const void* logits;
  int64_t rows;
  int64_t vocab;
  int64_t row_stride;

  /* filters, one value a row of logits; never NULL */
  const float* temperature;
  const int32_t* top_k;
  const float* top_p;
  const float* min_p;
  uint32_t tie_rule;     /* 0 keep_all, 1 lowest_id */
  uint32_t filter_order; /* 0 top_k_first, 1 joint */

  /* packed mask of allowed tokens, allowed_stride words a row; optional */
  const uint32_t* allowed;
  int64_t allowed_stride;
  /* 0 marks a row as padding; one byte a row; optional */
  const uint8_t* active;

  /* outputs: output i samples row indices[i], or row i where indices is NULL */
  const int32_t* indices;
  int64_t outputs;
  int32_t num_samples; /* tokens an output, drawn independently */

  /* seeds and offsets: one an output, or one for the call where seed_is_scalar is 1 */
  int32_t seed_is_scalar;
  const uint64_t* seed;
  const uint64_t* offset;
  /* [outputs, num_samples]: random words to draw with instead of those of the seeds; optional, and
     only for samplers that declare scripted_words */
  const uint64_t* words;

  /* results; all but tokens optional (NULL). An output without a token has tokens -1, support_size
     0 and log-probabilities -inf; its row has mask and probs 0, or, where it is padding, as they
     were */
  int32_t* tokens;         /* [outputs, num_samples] */
  int32_t* statuses;       /* [outputs], enum fairdraw_row_status of plugin.h */
  int32_t* support_size;   /* [outputs] */
  float* logprob;          /* [outputs, num_samples], of the token at the row's temperature (at 1
                              where that is 0), before min_p, top_k and top_p */
  float* logprob_filtered; /* [outputs, num_samples], among the survivors: at most 0 */
  uint32_t* mask;          /* [rows, mask_stride] words, the survivors; bits beyond vocab are 0 */
  int64_t mask_stride;
  float* probs; /* [rows, probs_stride], renormalised */
  int64_t probs_stride;

  /* only for samplers that declare processing, and only of logits */
  fairdraw_processing processing;
  /* Log-probabilities as engines report them, all optional: only for samplers that declare the
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
  /* 0 position: the token's place in that order, from 1 on, no two alike; 1 at_least: how many
     values are >= its own, so that equal tokens share the last of their places */
  uint32_t rank_rule;
  int32_t top_n;            /* 0 to 128 */
  float* report_values;     /* [outputs, num_samples], of the tokens */
  int32_t* report_ranks;    /* [outputs, num_samples], from 1 on; 0: the value is -inf */
  int32_t* report_top_ids;  /* [outputs, top_n], value descending, then id; -1: there are less */
  float* report_top_values; /* [outputs, top_n]; -inf: there are less */
  float* report_all;        /* [rows, report_all_stride], of every token */
  int64_t report_all_stride;
} fairdraw_batch;

/* Chains of drafted tokens, verified against the target's distribution: n drafted tokens a request,
 * n + 1 rows of the target. Rows are probabilities in any scale. With P and Q the rows of target
 * and draft at position i, each divided by its sum, drafted token x passes its test with
 * probability min(1, P(x) / Q(x)), and never where P(x) is 0. The drafted tokens before the first
 * that does not pass are emitted; in its place comes a token drawn from max(P - Q, 0); where all
 * pass, a bonus token drawn from row n of the target. So there are emitted + 1 tokens.
 *
 * Every position is tested, those after a rejection too, each with its own random word as if the
 * chain had got there: `accepted` counts all positions that pass, `emitted` those before the first
 * that does not. With random words given, x passes if accept_word * Q(x) < P(x) * 2^64, in exact
 * arithmetic, and recover and bonus words draw as FAIRDRAW_CAN_SCRIPTED_WORDS of plugin.h says. A
 * chain fails as a whole: a drafted token outside the vocabulary (index_out_of_range), else the
 * first bad row, position by position, the draft's before the target's, rows after a rejection
 * included. Then all its tokens are -1, and both counts 0. */
typedef struct fairdraw_chain {
  uint32_t struct_size; /* sizeof(fairdraw_chain) of the caller */
  uint32_t dtype;       /* of both matrices of probabilities */
  int64_t batch;
  int64_t num_draft_tokens; /* n >= 0 */
  int64_t vocab;
  const void* draft_probs;     /* [batch * n, vocab]: row b * n + i is position i */
  const int32_t* draft_tokens; /* [batch, n] */
  const void* target_probs;    /* [batch * (n + 1), vocab] */
  int32_t seed_is_scalar;
  const uint64_t* seed;   /* [batch], or [1] */
  const uint64_t* offset; /* as seed; position i uses offset + i */
  /* random words instead of those of the seeds: NULL, or all three */
  const uint64_t* accept_words;  /* [batch, n] */
  const uint64_t* recover_words; /* [batch, n] */
  const uint64_t* bonus_words;   /* [batch] */

  int32_t* tokens;   /* [batch, n + 1], -1 after the last emitted one */
  int32_t* accepted; /* [batch]: positions that pass their own test, those after a rejection too,
                        where positions have one: not looked at unless the rule is token-wise;
                        optional */
  int32_t* emitted;  /* [batch]: drafted tokens that were emitted; optional */
  int32_t* statuses; /* [batch], as of fairdraw_batch; optional */
} fairdraw_chain;

/* Requests with drafted tokens, verified against the target's logits. Request b has drafts and one
 * row more: row 0 follows its history, row i + 1 its draft i. Its rows are row_begins[b] to
 * row_begins[b + 1], exclusive, and its drafts start at place row_begins[b] - b. Without
 * row_begins it has max_draft + 1 rows and max_draft places. draft_lengths may say that fewer
 * places hold a draft; the others are padding, which is not read.
 *
 * The emitted tokens have the target's distribution, filtered as for fairdraw_batch, whatever the
 * drafts are: the accepted ones, and one token more. Two rules:
 *   - draft_law 0, and requests that are greedy or without drafts: the target's token is drawn at
 *     each row, as fairdraw_plugin_run draws it at offset + i, and the draft is accepted if it is
 *     that token. In a tree it is looked for among the children of the node; of children with the
 *     same token the first is accepted.
 *   - draft_law 1 or 2: the rule of fairdraw_chain, with the draft's filters applied to Q. In a
 *     tree the children of a node are tested in the order of their numbers, each against what those
 *     before it left: R_0 = P and Q_0 = Q; child k with token x is accepted with probability
 *     min(1, R_k(x) / Q_k(x)), both divided by their sums; else R_k+1 is max(R_k - Q_k, 0), and
 *     Q_k+1 is Q_0 (siblings 0), or Q_k without x (siblings 1). Where none is accepted, the token
 *     is drawn from what is left; at a leaf, from its target row.
 * In a tree parents[j] is the draft that draft j follows, by its number in the request and smaller
 * than j, or -1 for the root. Row j + 1 follows draft j, and row j + 1 of `draft` is the
 * distribution of its children; row 0 is that of the root's.
 *
 * Here nothing after the first rejection counts: neither its random words nor a NaN in its rows.
 * The status of a request is the first of: inactive; invalid_draft_length (rows or lengths that do
 * not fit); index_out_of_range (any draft outside the vocabulary); of trees invalid_draft_tree (a
 * parent that does not come before its child, more than 1024 children where there is a
 * distribution) and invalid_draft_length (a path longer than max_depth), wherever in the tree;
 * then, row by row as far as it gets, the target's row, the draft's row, impossible_draft (a draft
 * that its own distribution never gives). A failed request has tokens and nodes -1, and accepted 0.
 */
typedef struct fairdraw_verification {
  uint32_t struct_size; /* sizeof(fairdraw_verification) of the caller */
  uint32_t dtype;       /* of both matrices */
  int64_t batch;        /* requests */
  int64_t max_draft;    /* most drafts of a request */
  int64_t max_depth;    /* most drafts on a path of a tree */
  int64_t rows;
  int64_t places; /* for drafts */
  int64_t vocab;

  const void* target; /* logits, [rows, vocab] */
  /* filters of the target, one value a request; never NULL */
  const float* temperature;
  const int32_t* top_k;
  const float* top_p;
  const float* min_p;
  uint32_t tie_rule, filter_order; /* of both distributions */
  const uint32_t* allowed;         /* [rows, ceil(vocab / 32)] packed bits; optional */
  const int64_t* row_begins;       /* [batch + 1]; optional */
  const uint8_t* active;           /* [batch], 0: padding; optional */
  int32_t seed_is_scalar;
  const uint64_t* seed;   /* [batch], or [1] */
  const uint64_t* offset; /* as seed; position i uses offset + i */

  const int32_t* draft_tokens;  /* [places] */
  const int32_t* draft_lengths; /* [batch]; optional */
  const int32_t* parents;       /* [places]: trees; NULL: chains */
  uint32_t draft_law;           /* 0 none, 1 probabilities, 2 logits */
  const void*
      draft; /* [places, vocab]; of trees [rows, vocab]; NULL where the distribution is none */
  /* filters of the draft's logits, one value a request; NULL where the distribution is another */
  const float* draft_temperature;
  const int32_t* draft_top_k;
  const float* draft_top_p;
  const float* draft_min_p;

  int32_t* tokens; /* [batch, max_draft + 1], of trees [batch, max_depth + 1]; -1 after the last */
  int32_t* nodes;  /* [batch, max_depth] of trees: which drafts were accepted; optional */
  int32_t* accepted; /* [batch]: how many drafts were accepted; optional */
  int32_t* statuses; /* [batch], as of fairdraw_batch; optional */

  /* of trees whose draft_law is not 0: children of a node drawn 0 with replacement, 1 without. Only
     for samplers that declare distributions of trees */
  uint32_t siblings;
  /* only for samplers that declare it: of rows of the target, as [rows] and not [batch] there are;
     lists of a request's rows may share memory, each history being that of the row before and one
     token more. Rows that hold padding have any values, which are not to be read */
  fairdraw_processing processing;
} fairdraw_verification;

#ifdef __cplusplus
}
#endif

#endif
