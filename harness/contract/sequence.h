/* Requests that come and go, for samplers that keep them: those with FAIRDRAW_KEEPS_STATE of
 * plugin.h. An engine's sampler holds the requests of a running batch, each in a slot, and appends
 * the tokens that it draws to their histories itself. This header tells the sampler what happens to
 * the requests, event by event.
 *
 * Plain C11. A sampler that keeps requests needs this file and the two next to it. */
#ifndef FAIRDRAW_HARNESS_CONTRACT_SEQUENCE_H
#define FAIRDRAW_HARNESS_CONTRACT_SEQUENCE_H

#include "batch.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FAIRDRAW_EVENT_BEGIN 0u   /**< a new batch begins */
#define FAIRDRAW_EVENT_ADD 1u     /**< a request begins */
#define FAIRDRAW_EVENT_STEP 2u    /**< requests draw a token each */
#define FAIRDRAW_EVENT_EVICT 3u   /**< a request is preempted */
#define FAIRDRAW_EVENT_RESTORE 4u /**< an evicted request goes on */
#define FAIRDRAW_EVENT_END 5u     /**< a request is over */

/** An event, in fairdraw_event.kind:
 *   begin    a new batch, all of whose slots are free: whatever was in an earlier one is gone
 *   add      a request begins in a free slot
 *   step     some requests, at least one, get a row of logits each and draw one token each
 *   evict    a request is preempted: the slot is free at once, and the sampler forgets the request
 *   restore  an evicted request goes on in a free slot, this or another. All that there is to know
 *            of it is given again: a sampler needs nothing from the time before
 *   end      a request is over, and its slot free at once
 *
 * A request has what its add or restore gave: parameters, seed, offset, and processing with its
 * histories. In a step its token is the one that fairdraw_plugin_run draws for the same row of
 * logits with these parameters, seed and offset, and with the processing whose `output` holds all
 * tokens of the request so far and whose output_lengths is their number. After a step the token is
 * appended to the output, and the offset advances by one. So a token does not depend on the slot,
 * on other requests, on the order of rows or on what was in the slot before.
 *
 * A row without a token gets -1 and its status, and its request stays as it was: nothing is
 * appended, and the offset stays. A row that fails does not affect the other rows of the step.
 * Requests that take no part in a step do not change in it.
 *
 * Events come one at a time and in an order that makes sense: every batch begins with `begin`; a
 * slot that is added or restored to is free, and one that steps, is evicted or ends is not. */
typedef struct fairdraw_event {
  uint32_t struct_size; /**< sizeof(fairdraw_event) of the caller */
  uint32_t kind;        /**< FAIRDRAW_EVENT_BEGIN and its neighbours */

  /** properties of the batch, the same in all of its events */
  int64_t slots;
  int64_t vocab;         /**< values of a row of logits */
  uint32_t dtype;        /**< dtype of logits, as in fairdraw_batch; so are the next two */
  uint32_t tie_rule;     /**< tie rule: 0 keep_all, 1 lowest_id */
  uint32_t filter_order; /**< 0 top_k_first, 1 joint */

  /** number of requests of the event: 0 for begin, the number of rows for a step, otherwise 1 */
  int64_t rows;
  const int32_t* slot; /**< [rows], all different, in [0, slots), in any order; NULL for begin */

  /** for add and restore; NULL in all other events */
  const float* temperature; /**< [rows] */
  const int32_t* top_k;     /**< [rows] */
  const float* top_p;       /**< [rows] */
  const float* min_p;       /**< [rows] */
  const uint64_t* seed;     /**< [rows] */
  const uint64_t*
      offset; /**< [rows]; of the next token: 0 for add, the tokens drawn so far for restore */
  /** The request's processing as fairdraw_batch has that of a row; histories are lists, prompt_mask
     and output_counts are NULL. The output is empty for add, and all tokens so far for restore.
     Without repetition_penalty the request has no processing, and its history does not matter. Only
     for samplers that declare processing. */
  fairdraw_processing processing;

  /** for step; NULL in all other events. Row i belongs to the request in slot[i] */
  const void* logits;      /**< [rows, vocab] */
  const uint32_t* allowed; /**< [rows, ceil(vocab / 32)], the packed mask of this step; optional */
  int32_t* tokens;         /**< [rows] */
  int32_t* statuses;       /**< [rows], enum fairdraw_row_status; optional */
} fairdraw_event;

#ifdef __cplusplus
}
#endif

#endif
