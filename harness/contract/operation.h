/* Operations on whole rows, which engines run before a draw: softmax, masks of logits,
 * probabilities over the tokens that a filter keeps. Their bits are FAIRDRAW_CAN_SOFTMAX and its
 * neighbours in plugin.h.
 *
 * Plain C11. A sampler with such operations needs this file and its neighbours. */
#ifndef FAIRDRAW_HARNESS_CONTRACT_OPERATION_H
#define FAIRDRAW_HARNESS_CONTRACT_OPERATION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FAIRDRAW_OPERATION_SOFTMAX 0u            /**< softmax */
#define FAIRDRAW_OPERATION_LOG_SOFTMAX 1u        /**< log_softmax */
#define FAIRDRAW_OPERATION_TOP_K_MASK_LOGITS 2u  /**< top_k_mask_logits */
#define FAIRDRAW_OPERATION_MIN_P_MASK_LOGITS 3u  /**< min_p_mask_logits */
#define FAIRDRAW_OPERATION_TOP_K_RENORM_PROBS 4u /**< top_k_renorm_probs */
#define FAIRDRAW_OPERATION_TOP_P_RENORM_PROBS 5u /**< top_p_renorm_probs */

/** An operation on a row x, in fairdraw_operation.kind, and the parameter that it takes:
 *   softmax             temperature  exp((x_i - max) / T) over their sum. T = 0 is 1 at the largest
 *                                    logit, lowest id, and 0 elsewhere
 *   log_softmax         none         (x_i - max) - ln sum exp(x_j - max), natural
 *   top_k_mask_logits   top_k        x_i where it is among the k largest, else -inf
 *   min_p_mask_logits   min_p        x_i where exp(x_i - max) >= min_p, else -inf
 *   top_k_renorm_probs  top_k        x_i over the sum of the k largest where it is one, else 0
 *   top_p_renorm_probs  top_p        x_i over the sum of the nucleus of mass p where it is in it,
 *                                    else 0
 * The rows of the first four are logits, those of the last two probabilities: finite and >= 0, in
 * any scale. Ties of the k-th largest value stay, for k = 1 too; k = 0, -1 and k >= vocab keep all.
 * A token is in the nucleus if the probabilities that are strictly larger have less than p times
 * the row's mass; p = 0 keeps the largest one, lowest id, and p = 1 all. min_p = 0 keeps all. These
 * rules are the profile fairdraw; a sampler of another profile follows the definition of its
 * profile.
 *
 * A token of logit -inf has probability 0, log-probability -inf, and stays -inf in masks. Masked
 * logits are -inf exactly, and dropped probabilities 0 exactly. A logit that a mask keeps is
 * unchanged.
 *
 * How exact. Sums, exponentials and quotients have the precision of float32 or better, in any
 * order. From that precision the gate derives, per row, the interval of each result, and how close
 * to 1 the row's sum must be, which is closer than the sum of the intervals, because errors of the
 * divisor cancel. Masks are not rounded, and the set of kept tokens depends on no rounding but that
 * of the comparison with min_p.
 *
 * A row with NaN, +inf, a negative probability, nothing allowed or a parameter out of range has a
 * status of plugin.h that is not 0, and its result is 0 for probabilities and -inf for logits and
 * log-probabilities, throughout. A bad row does not affect other rows. Bad rows are not judged if
 * the call has no statuses. */
typedef struct fairdraw_operation {
  uint32_t struct_size; /**< sizeof(fairdraw_operation) of the caller */
  uint32_t kind;        /**< FAIRDRAW_OPERATION_SOFTMAX and its neighbours */

  /** rows x vocab values of dtype, row_stride values apart, aligned to a value. Not to be changed,
     unless the result is the same memory */
  uint32_t dtype; /**< 0 float32, 1 float16, 2 bfloat16 */
  /** dtype of the result: float32, or the dtype of the rows for samplers that declare it; masked
   * logits always have the dtype of the rows. */
  uint32_t result_dtype;
  int64_t rows;       /**< number of rows */
  int64_t vocab;      /**< values of a row */
  int64_t row_stride; /**< in values, >= vocab */
  const void* values; /**< [rows, row_stride] */

  /** The parameter of the kind, one value per row, or one for the call if parameter_is_scalar is
     1; the others are NULL. */
  int32_t parameter_is_scalar;
  const float* temperature; /**< parameter of softmax; [rows] or [1], like the next three */
  const int32_t* top_k;     /**< [rows] or [1]; for top_k_mask_logits and top_k_renorm_probs */
  const float* top_p;       /**< [rows] or [1]; for top_p_renorm_probs */
  const float* min_p;       /**< [rows] or [1]; for min_p_mask_logits */

  /** rows x vocab values, result_stride values apart: the gaps between rows must not be written.
     The same memory as `values`, with the same stride and dtype, only of samplers that declare
     FAIRDRAW_MASKS_IN_PLACE or FAIRDRAW_OPERATES_IN_PLACE. */
  int64_t result_stride;
  void* result;      /**< [rows, result_stride] */
  int32_t* statuses; /**< [rows], enum fairdraw_row_status; optional */
} fairdraw_operation;

#ifdef __cplusplus
}
#endif

#endif
