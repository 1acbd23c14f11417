/* This plugin fits on one page: greedy and categorical sampling by inversion, in float64 on the
   CPU.
 *
 *     cc -std=c11 -O2 -shared -fPIC -I PREFIX/include greedy_and_categorical.c -lm -o sampler.so
 *     fairdraw verify --sampler plugin:./sampler.so
 */
#include <fairdraw/plugin.h>
#include <math.h>
#include <string.h>

const uint32_t fairdraw_plugin_abi = FAIRDRAW_PLUGIN_ABI;

int32_t fairdraw_plugin_describe(fairdraw_plugin_description* description, char* message,
                                 size_t message_size) {
  (void)message, (void)message_size;
  description->pointers = FAIRDRAW_HOST_POINTERS;
  description->name = "greedy_and_categorical";
  description->version = "1.0";
  description->semantics = "fairdraw";
  description->abilities = FAIRDRAW_CAN_INDICES | FAIRDRAW_CAN_NUM_SAMPLES |
                           FAIRDRAW_REPORTS_STATUS | FAIRDRAW_PER_REQUEST_SEEDS;
  description->randomness = FAIRDRAW_SEEDS_INDEPENDENT | FAIRDRAW_OFFSETS_INDEPENDENT |
                            FAIRDRAW_OUTPUTS_INDEPENDENT | FAIRDRAW_SAMPLES_INDEPENDENT |
                            FAIRDRAW_REPLAYS_EQUAL;
  return 0;
}

static uint64_t mixed(uint64_t x) { /* the last step of the generator splitmix64 */
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static double uniform(uint64_t seed, uint64_t offset, uint64_t index) { /* in [0, 1) */
  uint64_t state = mixed(seed + UINT64_C(0x9e3779b97f4a7c15));
  state = mixed((state ^ mixed(offset + UINT64_C(0xd1b54a32d192ed03))) + index);
  return (double)(mixed(state) >> 11) * 0x1p-53;
}

/* memcpy is used because rows may lie at any address */
static float loaded(const void* logits, int64_t i) {
  float value;
  memcpy(&value, (const char*)logits + i * (int64_t)sizeof(value), sizeof(value));
  return value;
}

static int32_t draw(const void* logits, int64_t vocab, double temperature, double u,
                    int32_t* token) {
  *token = -1;
  if (!(temperature == 0 || (temperature >= 0x1p-126 && temperature <= 0x1p64))) {
    return FAIRDRAW_ROW_INVALID_TEMPERATURE;
  }
  int64_t best = 0;
  for (int64_t i = 0; i < vocab; ++i) {
    if (isnan(loaded(logits, i))) return FAIRDRAW_ROW_NAN_INPUT;
    if (loaded(logits, i) > loaded(logits, best)) best = i;
  }
  const double largest = loaded(logits, best);
  if (largest == INFINITY) return FAIRDRAW_ROW_INFINITE_INPUT;
  if (largest == -INFINITY) return FAIRDRAW_ROW_NO_ALLOWED_TOKEN;
  *token = (int32_t)best;
  if (temperature == 0) return FAIRDRAW_ROW_OK;
  double total = 0;
  for (int64_t i = 0; i < vocab; ++i) total += exp((loaded(logits, i) - largest) / temperature);
  const double target = u * total; /* less than the total, because u < 1 */
  double sum = 0;
  for (int64_t i = 0; i < vocab; ++i) {
    sum += exp((loaded(logits, i) - largest) / temperature);
    if (sum > target) {
      *token = (int32_t)i;
      break;
    }
  }
  return FAIRDRAW_ROW_OK;
}

int32_t fairdraw_plugin_run(const fairdraw_batch* batch, char* message, size_t message_size) {
  (void)message, (void)message_size;
  for (int64_t output = 0; output < batch->outputs; ++output) {
    const int64_t row = batch->indices ? batch->indices[output] : output;
    const int64_t at = batch->seed_is_scalar ? 0 : output;
    const uint64_t base = batch->seed_is_scalar ? (uint64_t)(output * batch->num_samples) : 0;
    for (int32_t sample = 0; sample < batch->num_samples; ++sample) {
      int32_t token = -1, status = FAIRDRAW_ROW_INDEX_OUT_OF_RANGE;
      if (row >= 0 && row < batch->rows) {
        const void* logits = (const char*)batch->logits + row * batch->row_stride * 4;
        const double u = uniform(batch->seed[at], batch->offset[at], base + (uint64_t)sample);
        status = draw(logits, batch->vocab, batch->temperature[row], u, &token);
      }
      batch->tokens[output * batch->num_samples + sample] = token;
      if (batch->statuses) batch->statuses[output] = status;
    }
  }
  return 0;
}
