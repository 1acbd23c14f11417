/* Operations on whole rows, which engines run before a draw: softmax, masks of logits, and
 * probabilities over the tokens that a filter keeps. A plugin declares these operations with the
 * bits FAIRDRAW_CAN_SOFTMAX to FAIRDRAW_CAN_TOP_P_RENORM_PROBS of plugin_abi.h.
 *
 * The header is plain C11. The headers plugin.h and plugin_abi.h include this header. */
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

/** An operation on rows. The field `kind` says which operation, and each operation takes one
 * parameter at most. For a row x the operations are:
 *   softmax             temperature  exp((x_i - max) / T) over their sum; for T = 0, 1 at the
 *                                    largest logit of the lowest id, and 0 elsewhere
 *   log_softmax         none         (x_i - max) - ln sum exp(x_j - max), natural
 *   top_k_mask_logits   top_k        x_i if it is among the k largest, otherwise -inf
 *   min_p_mask_logits   min_p        x_i if exp(x_i - max) >= min_p, otherwise -inf
 *   top_k_renorm_probs  top_k        x_i over the sum of the k largest if it is one, otherwise 0
 *   top_p_renorm_probs  top_p        x_i over the sum of the nucleus of mass p if it is in the
 *                                    nucleus, otherwise 0
 *
 * The first four operations take rows of logits; the last two take rows of probabilities, which are
 * finite and >= 0, in any scale. Values that tie with the k-th largest stay, also for k = 1; k = 0,
 * -1 and k >= vocab keep all. A token is in the nucleus if the strictly larger probabilities sum to
 * less than p times the row's mass; p = 0 keeps only the largest probability of the lowest id, and
 * p = 1 keeps all. min_p = 0 keeps all. These rules are those of the profile fairdraw; a sampler of
 * another profile follows the definition of its profile.
 *
 * A token of logit -inf has probability 0 and log-probability -inf, and its logit stays -inf in
 * masks. Masked logits are exactly -inf, and dropped probabilities are exactly 0. A logit that a
 * mask keeps is unchanged.
 *
 * Precision. Sums, exponentials and quotients have the precision of float32 or better, in any
 * order. From that precision the gate derives, for each row, the interval of each result and the
 * maximum distance of the row's sum from 1. This distance is less than the sum of the intervals
 * allows, because errors of the divisor cancel. Masks are not rounded, and the only rounding that
 * the set of kept tokens depends on is that of the comparison with min_p.
 *
 * A row has a status that is not 0 (plugin_abi.h) if it has NaN, +inf, a negative probability, no
 * allowed token or a parameter out of range. All results of such a row are 0 for probabilities, and
 * -inf for logits and log-probabilities. A bad row does not affect other rows. Bad rows are not
 * judged if the call has no statuses. */
typedef struct fairdraw_operation {
  uint32_t struct_size; /**< sizeof(fairdraw_operation) in the caller's code */
  uint32_t kind;        /**< a value such as FAIRDRAW_OPERATION_SOFTMAX */

  /** dtype of the rows x vocab values, which are row_stride values apart and aligned to a value.
   * The values must not be changed, unless the result is the same memory */
  uint32_t dtype; /**< 0 float32, 1 float16, 2 bfloat16 */
  /** dtype of the result: float32, or the dtype of the rows if the sampler declares this ability;
   * masked logits always have the dtype of the rows. */
  uint32_t result_dtype;
  int64_t rows;       /**< number of rows */
  int64_t vocab;      /**< values of a row */
  int64_t row_stride; /**< in values, >= vocab */
  const void* values; /**< [rows, row_stride] */

  /** 0 if the operation's parameter has one value per row; 1 if it has one value for the call. The
   * parameters that the operation does not take are NULL. */
  int32_t parameter_is_scalar;
  const float* temperature; /**< [rows] or [1]; for softmax */
  const int32_t* top_k;     /**< [rows] or [1]; for top_k_mask_logits and top_k_renorm_probs */
  const float* top_p;       /**< [rows] or [1]; for top_p_renorm_probs */
  const float* min_p;       /**< [rows] or [1]; for min_p_mask_logits */

  /** Distance of the result's rows in values; the gaps between rows must not be written. The result
   * is the same memory as `values`, with the same stride and dtype, only for samplers that declare
   * FAIRDRAW_MASKS_IN_PLACE or FAIRDRAW_OPERATES_IN_PLACE. */
  int64_t result_stride;
  void* result;      /**< [rows, result_stride] */
  int32_t* statuses; /**< [rows] values of fairdraw_row_status; optional */
} fairdraw_operation;

#ifdef __cplusplus
}
#endif

#endif
