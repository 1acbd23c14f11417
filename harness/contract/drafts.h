/* The inputs of samplers that verify drafted tokens: either chains, verified against the target's
 * probabilities, or requests of an engine with chains or trees, verified against the target's
 * logits. The header is plain C11, like batch.h next to this file. */
#ifndef FAIRDRAW_HARNESS_CONTRACT_DRAFTS_H
#define FAIRDRAW_HARNESS_CONTRACT_DRAFTS_H

#include <stdint.h>

#include "batch.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Chains of drafted tokens, verified against the target's distribution: each request has n drafted
 * tokens and n + 1 rows of the target. The rows of a chain are probabilities, whose sum need not be
 * 1. Let P and Q be the rows of target and draft at position i, each divided by its sum. The
 * drafted token x passes its test with probability min(1, P(x) / Q(x)), and never if P(x) is 0. The
 * drafted tokens before the first that fails its test are emitted, followed by a token drawn from
 * max(P - Q, 0); if all pass, a bonus token is drawn from row n of the target. So a chain yields
 * emitted + 1 tokens.
 *
 * Every position of a chain is tested with its own random word, even after a rejection, as if all
 * earlier drafts had passed: `accepted` counts all positions that pass, and `emitted` counts the
 * positions before the first that fails. If random words are given, x passes if
 * accept_word * Q(x) < P(x) * 2^64 in exact arithmetic, and recover and bonus words draw tokens as
 * FAIRDRAW_CAN_SCRIPTED_WORDS of plugin_abi.h says. A chain fails as a whole: because of a drafted
 * token outside the vocabulary (index_out_of_range), otherwise because of the first bad row. Rows
 * are checked position by position, the draft's before the target's, including rows after a
 * rejection. All tokens of a failed chain are -1, and both counts are 0. */
typedef struct fairdraw_chain {
  uint32_t struct_size;        /**< sizeof(fairdraw_chain) in the caller's code */
  uint32_t dtype;              /**< dtype of both matrices of probabilities */
  int64_t batch;               /**< number of chains */
  int64_t num_draft_tokens;    /**< n >= 0 */
  int64_t vocab;               /**< values of a row */
  const void* draft_probs;     /**< [batch * n, vocab] row b * n + i is position i of chain b */
  const int32_t* draft_tokens; /**< [batch, n] */
  const void* target_probs;    /**< [batch * (n + 1), vocab] */
  int32_t seed_is_scalar;      /**< 1 if the call has one seed and one offset */
  const uint64_t* seed;        /**< [batch], or [1] */
  const uint64_t* offset;      /**< [batch], or [1]; position i uses offset + i */
  /** [batch, n] random words instead of those of the seeds; all three arrays are NULL, or none */
  const uint64_t* accept_words;  /**< [batch, n] */
  const uint64_t* recover_words; /**< [batch, n] */
  const uint64_t* bonus_words;   /**< [batch] */

  int32_t* tokens;   /**< [batch, n + 1] emitted tokens, followed by -1 */
  int32_t* accepted; /**< [batch]: number of positions that pass their own test, also after a
                      * rejection; judged only if the sampler's rule is token-wise; optional */
  int32_t* emitted;  /**< [batch]: number of drafted tokens that are emitted; optional */
  int32_t* statuses; /**< [batch] statuses as in fairdraw_batch; optional */
} fairdraw_chain;

/** Requests with drafted tokens, verified against the target's logits. A request has one row more
 * than drafts: its row 0 follows the history, and its row i + 1 follows draft i. The rows of
 * request b are row_begins[b] to row_begins[b + 1], exclusive, and its drafts start at place
 * row_begins[b] - b. Without row_begins, a request has max_draft + 1 rows and max_draft places. If
 * draft_lengths says that fewer places hold a draft, the other places are padding, which is not
 * read.
 *
 * The emitted tokens are the accepted drafts and one token more. The emitted
 * tokens have the target's distribution, filtered as for fairdraw_batch, whatever the drafts are.
 * One of two rules decides which drafts are accepted:
 *   - draft_law 0, and requests that are greedy or without drafts: the target's token is drawn at
 *     each row, as fairdraw_plugin_run draws it at offset + i, and the draft is accepted if it is
 *     that token. In a tree the token is searched among the children of the node; of children with
 *     the same token the first is accepted.
 *   - draft_law 1 or 2: the rule of fairdraw_chain, with the draft's filters applied to Q. In a
 *     tree the children of a node are tested in the order of their numbers, each against the
 *     residual that earlier children left: R_0 = P and Q_0 = Q; child k with token x is accepted
 *     with probability min(1, R_k(x) / Q_k(x)), both divided by their sums; otherwise R_k+1 is
 *     max(R_k - Q_k, 0), and Q_k+1 is Q_0 (siblings 0), or Q_k without x (siblings 1). If no child
 *     is accepted, the token is drawn from the last residual; at a leaf, from its target row.
 *
 * In a tree parents[j] is the number in the request of the draft that draft j follows, which is
 * smaller than j, or -1 for the root. Row j + 1 follows draft j. Row j + 1 of `draft` is the
 * distribution of the children of draft j, and row 0 that of the root's children.
 *
 * After the first rejection of a request nothing counts: neither later random words nor a NaN in
 * later rows. The status of a request is that of the first fault in this order. First come
 * inactive, invalid_draft_length (rows or lengths that do not fit) and index_out_of_range (any
 * draft outside the vocabulary). For trees, two faults anywhere in the tree follow:
 * invalid_draft_tree (a parent that does not come before its child, or more than 1024 children of a
 * node with a draft distribution), and invalid_draft_length (a path longer than max_depth). Last
 * come, for each row up to the last one used, the faults of the target's row, of the draft's row,
 * and impossible_draft (a draft that its own distribution never gives). A failed request has tokens
 * and nodes -1, and accepted 0. */
typedef struct fairdraw_verification {
  uint32_t struct_size; /**< sizeof(fairdraw_verification) in caller's code */
  uint32_t dtype;       /**< dtype of the logits of target and draft */
  int64_t batch;        /**< number of requests */
  int64_t max_draft;    /**< maximum number of drafts of a request */
  int64_t max_depth;    /**< maximum number of drafts on a path of a tree */
  int64_t rows;         /**< number of rows of logits of the target */
  int64_t places;       /**< number of places for drafted tokens */
  int64_t vocab;        /**< values of a row */

  const void* target; /**< logits, [rows, vocab] */
  /** [batch]; the target's four filter parameters have one value per request, never NULL */
  const float* temperature;
  const int32_t* top_k;      /**< [batch] */
  const float* top_p;        /**< [batch] */
  const float* min_p;        /**< [batch] */
  uint32_t tie_rule;         /**< tie rule of both distributions, as in fairdraw_batch */
  uint32_t filter_order;     /**< filter order of both distributions */
  const uint32_t* allowed;   /**< [rows, ceil(vocab / 32)] packed bits; optional */
  const int64_t* row_begins; /**< [batch + 1]; optional */
  const uint8_t* active;     /**< [batch], 0: padding; optional */
  int32_t seed_is_scalar;    /**< 1 if the call has one seed and one offset */
  const uint64_t* seed;      /**< [batch], or [1] */
  const uint64_t* offset;    /**< [batch], or [1]; position i uses offset + i */

  const int32_t* draft_tokens;  /**< [places] */
  const int32_t* draft_lengths; /**< [batch]; optional */
  const int32_t* parents;       /**< [places]: parents of the drafts of a tree; NULL for chains */
  uint32_t draft_law;           /**< 0 none, 1 probabilities, 2 logits */
  /** [places, vocab], for trees [rows, vocab]: distribution of drafts; NULL if draft_law is 0 */
  const void* draft;
  /** [batch]; the four filter parameters of the draft's logits have one value per request; NULL if
   * the draft has no logits */
  const float* draft_temperature;
  const int32_t* draft_top_k; /**< [batch] */
  const float* draft_top_p;   /**< [batch] */
  const float* draft_min_p;   /**< [batch] */

  /** [batch, max_draft + 1], for trees [batch, max_depth + 1]: emitted tokens, followed by -1 */
  int32_t* tokens;
  int32_t* nodes;    /**< [batch, max_depth], only for trees: the accepted drafts; optional */
  int32_t* accepted; /**< [batch]: number of accepted drafts; optional */
  int32_t* statuses; /**< [batch] statuses as in fairdraw_batch; optional */

  /** For trees whose draft_law is not 0: the children of a node were drawn with replacement (0) or
   * without replacement (1). Only for samplers that declare draft distributions of trees */
  uint32_t siblings;
  /** Processing of the target's rows, only for samplers that declare it. Its arrays have one entry
   * per row (rows, not batch). Lists of a request's rows may share memory, because each history is
   * that of the row before and one token more. Rows that are padding may have any values, which
   * must not be read */
  fairdraw_processing processing;
} fairdraw_verification;

#ifdef __cplusplus
}
#endif

#endif
