/* The batch that every sampler under test is given: built-in, plugin or Python.
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

typedef struct fairdraw_batch {
  uint32_t struct_size; /* sizeof(fairdraw_batch) of the caller */

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

  /* results; all but tokens optional (NULL) */
  int32_t* tokens;         /* [outputs, num_samples] */
  int32_t* statuses;       /* [outputs], fairdraw::RowStatus */
  int32_t* support_size;   /* [outputs] */
  float* logprob;          /* [outputs, num_samples], before filtering */
  float* logprob_filtered; /* [outputs, num_samples] */
  uint32_t* mask;          /* [rows, mask_stride] words, the survivors */
  int64_t mask_stride;
  float* probs; /* [rows, probs_stride], renormalised */
  int64_t probs_stride;
} fairdraw_batch;

#ifdef __cplusplus
}
#endif

#endif
