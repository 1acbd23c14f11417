/* What every sampler under test is given: built-in, plugin or Python. A batch of rows to sample, a
 * batch of drafted chains to verify, or requests of an engine with drafted tokens.
 *
 * Plain C11, no dependency. All pointers are host memory, unless a sampler's description says
 * otherwise. Optional arrays are NULL. Numbers of enums are those of fairdraw/types.h.
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

/* What happens to the logits before temperature and filters: fairdraw/logits_processing.h says each
 * step, its order and its arithmetic. Neutral values and empty lists change nothing. */
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

  /* results; all but tokens optional (NULL) */
  int32_t* tokens;         /* [outputs, num_samples] */
  int32_t* statuses;       /* [outputs], fairdraw::RowStatus */
  int32_t* support_size;   /* [outputs] */
  float* logprob;          /* [outputs, num_samples], before filtering */
  float* logprob_filtered; /* [outputs, num_samples] */
  uint32_t* mask;          /* [rows, mask_stride] words, the survivors; bits beyond vocab are 0 */
  int64_t mask_stride;
  float* probs; /* [rows, probs_stride], renormalised */
  int64_t probs_stride;

  /* only for samplers that declare processing, and only of logits */
  fairdraw_processing processing;
  /* log-probabilities as engines report them (fairdraw/log_probabilities.h), all optional: only for
     samplers that declare the mode, and of ranks the rule. Outputs that have no token get values
     -inf, ids -1 and ranks 0 */
  uint32_t report_mode; /* 0 raw_logits, 1 raw_logprobs, 2 processed_logits, 3 processed_logprobs */
  uint32_t rank_rule;   /* 0 position, 1 at_least */
  int32_t top_n;        /* 0 to 128 */
  float* report_values; /* [outputs, num_samples], of the tokens */
  int32_t* report_ranks;    /* [outputs, num_samples], from 1 on; 0: the value is -inf */
  int32_t* report_top_ids;  /* [outputs, top_n], value descending, then id; -1: there are less */
  float* report_top_values; /* [outputs, top_n]; -inf: there are less */
  float* report_all;        /* [rows, report_all_stride], of every token */
  int64_t report_all_stride;
} fairdraw_batch;

/* Chains of drafted tokens, verified against the target's distribution: n drafted tokens a request,
 * n + 1 rows of the target. */
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
  int32_t* accepted; /* [batch]: positions that pass their own test; optional */
  int32_t* emitted;  /* [batch]: drafted tokens that were emitted; optional */
  int32_t* statuses; /* [batch], fairdraw::RowStatus; optional */
} fairdraw_chain;

/* Requests with drafted tokens, verified against the target's logits: fairdraw/speculative.h says
 * what each array means. Request b has drafts and one row more; its rows are row_begins[b] to
 * row_begins[b + 1], exclusive, and its drafts start at place row_begins[b] - b. Without
 * row_begins it has max_draft + 1 rows and max_draft places. */
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
  int32_t* statuses; /* [batch], fairdraw::RowStatus; optional */

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
