/* The events of a running batch, for samplers that keep its requests (FAIRDRAW_KEEPS_STATE of
 * plugin_abi.h). An engine's sampler holds the requests of a running batch, each in a slot, and
 * itself appends the tokens that it draws to their histories. An event tells the sampler what
 * happens to the requests.
 *
 * The header is plain C11. A plugin that keeps requests includes plugin.h, which includes this
 * header. */
#ifndef FAIRDRAW_HARNESS_CONTRACT_SEQUENCE_H
#define FAIRDRAW_HARNESS_CONTRACT_SEQUENCE_H

#include "batch.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FAIRDRAW_EVENT_BEGIN 0u   /**< a new batch begins */
#define FAIRDRAW_EVENT_ADD 1u     /**< a request begins */
#define FAIRDRAW_EVENT_STEP 2u    /**< some requests draw one token each */
#define FAIRDRAW_EVENT_EVICT 3u   /**< a request is preempted */
#define FAIRDRAW_EVENT_RESTORE 4u /**< an evicted request continues */
#define FAIRDRAW_EVENT_END 5u     /**< a request is over */

/** An event. The field `kind` names the kind of the event:
 *   begin    a new batch begins with all slots free, and all requests of an earlier batch are gone
 *   add      a request begins in a free slot
 *   step     some requests, at least one, get a row of logits each and draw one token each
 *   evict    a request is preempted: the slot is free at once, and the sampler forgets the request
 *   restore  an evicted request continues in a free slot, the same or another. The event gives the
 *            whole state of the request, so that a sampler needs nothing from before the eviction
 *   end      a request is over, and its slot is free at once
 *
 * The event add or restore gives a request's parameters, seed, offset, and processing with its
 * histories. In a step, the token of a request is the one that fairdraw_plugin_run draws for the
 * same row of logits with these parameters, seed and offset, and with processing whose `output`
 * holds all tokens of the request so far and whose output_lengths is their number. After a step the
 * token is appended to the output, and the offset advances by one. So a token does not depend on
 * the slot, on other requests, on the order of rows or on the slot's earlier requests.
 *
 * A row without a token gets the token -1 and a status, and its request is unchanged: no token is
 * appended, and the offset stays. A row that fails does not affect the other rows of the step. A
 * step does not change requests that take no part in it.
 *
 * Events come one at a time and in a valid order: every batch begins with `begin`; the slot of an
 * add or restore is free, and the slot of a step, evict or end holds a request. */
typedef struct fairdraw_event {
  uint32_t struct_size; /**< sizeof(fairdraw_event) in the caller's code */
  uint32_t kind;        /**< one of FAIRDRAW_EVENT_BEGIN to FAIRDRAW_EVENT_END */

  /** number of slots; this and the next four fields are the same in all events of a batch */
  int64_t slots;
  int64_t vocab;         /**< number of values in a row of logits */
  uint32_t dtype;        /**< dtype of the logits, as in fairdraw_batch */
  uint32_t tie_rule;     /**< tie rule: 0 keep_all, 1 lowest_id */
  uint32_t filter_order; /**< 0 top_k_first, 1 joint */

  /** number of requests of the event: 0 for begin, the number of rows for a step, otherwise 1 */
  int64_t rows;
  const int32_t* slot; /**< [rows] different slots in [0, slots), in any order; NULL for begin */

  /** [rows]; this array and the next five are given for add and restore, and NULL otherwise */
  const float* temperature; /**< [rows] */
  const int32_t* top_k;     /**< [rows] */
  const float* top_p;       /**< [rows] */
  const float* min_p;       /**< [rows] */
  const uint64_t* seed;     /**< [rows] */
  const uint64_t*
      offset; /**< [rows] offset of the next token: 0 for add, tokens drawn so far for restore */
  /** The request's processing, in the form that fairdraw_batch has for a row. Histories are lists,
   * so prompt_mask and output_counts are NULL. The output is empty for add, and holds all tokens so
   * far for restore. A request without repetition_penalty has no processing, so that its history
   * does not matter. The field is only for samplers that declare processing. */
  fairdraw_processing processing;

  /** [rows, vocab]; this array and the next three are given for step, and NULL otherwise.
   * Row i belongs to the request in slot[i] */
  const void* logits;      /**< [rows, vocab] */
  const uint32_t* allowed; /**< [rows, ceil(vocab / 32)], the packed mask of this step; optional */
  int32_t* tokens;         /**< [rows] */
  int32_t* statuses;       /**< [rows] values of fairdraw_row_status; optional */
} fairdraw_event;

#ifdef __cplusplus
}
#endif

#endif
