/* This plugin has no sampler but two operations on rows, softmax and top_k_mask_logits, in float64
 * on the CPU.
 *
 *     cc -std=c11 -O2 -shared -fPIC -I PREFIX/include softmax_and_top_k.c -lm -o operations.so
 *     fairdraw verify --sampler plugin:./operations.so
 */
#include <fairdraw/plugin.h>
#include <math.h>
#include <stdlib.h>

const uint32_t fairdraw_plugin_abi = FAIRDRAW_PLUGIN_ABI;

int32_t fairdraw_plugin_describe(fairdraw_plugin_description* description, char* message,
                                 size_t message_size) {
  (void)message, (void)message_size;
  description->pointers = FAIRDRAW_HOST_POINTERS;
  description->name = "softmax_and_top_k";
  description->version = "1.0";
  description->semantics = "fairdraw";
  description->abilities =
      FAIRDRAW_CAN_SOFTMAX | FAIRDRAW_CAN_TOP_K_MASK_LOGITS | FAIRDRAW_MASKS_IN_PLACE;
  return 0;
}

static int descending(const void* a, const void* b) {
  const float x = *(const float*)a, y = *(const float*)b;
  return (x < y) - (x > y);
}

static void softmax(const float* x, int64_t vocab, double temperature, float* result) {
  int64_t best = 0;
  for (int64_t i = 1; i < vocab; ++i) {
    if (x[i] > x[best]) best = i;
  }
  double sum = 0;
  for (int64_t i = 0; i < vocab; ++i) sum += exp(((double)x[i] - x[best]) / temperature);
  for (int64_t i = 0; i < vocab; ++i) {
    const double weight = exp(((double)x[i] - x[best]) / temperature);
    result[i] = temperature == 0 ? (float)(i == best) : (float)(weight / sum);
  }
}

/* Keeps the k largest logits, and those that tie with the k-th. `sorted` has room for one row. */
static void top_k(const float* x, int64_t vocab, int32_t k, float* sorted, float* result) {
  float threshold = -INFINITY;
  if (k > 0 && k < vocab) {
    for (int64_t i = 0; i < vocab; ++i) sorted[i] = x[i];
    qsort(sorted, (size_t)vocab, sizeof(float), descending);
    threshold = sorted[k - 1];
  }
  for (int64_t i = 0; i < vocab; ++i) result[i] = x[i] >= threshold ? x[i] : -INFINITY;
}

int32_t fairdraw_plugin_run_operation(const fairdraw_operation* call, char* message,
                                      size_t message_size) {
  (void)message, (void)message_size;
  float* const sorted = malloc((size_t)call->vocab * sizeof(float));
  for (int64_t row = 0; row < call->rows && sorted != NULL; ++row) {
    const float* const x = (const float*)call->values + row * call->row_stride;
    float* const result = (float*)call->result + row * call->result_stride;
    const int64_t at = call->parameter_is_scalar ? 0 : row;
    if (call->kind == FAIRDRAW_OPERATION_SOFTMAX) {
      softmax(x, call->vocab, call->temperature[at], result);
    } else {
      top_k(x, call->vocab, call->top_k[at], sorted, result);
    }
  }
  const int32_t failed = sorted == NULL;
  free(sorted);
  return failed;
}
