/* This plugin marks its tokens by a secret key, in float64 on the CPU: a watermark by keyed Gumbel
 * noise (Aaronson 2022). It has temperature alone.
 *
 *     cc -std=c11 -O2 -shared -fPIC -I PREFIX/include marks_by_key.c -lm -o sampler.so
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
  description->name = "marks_by_key";
  description->version = "1.0";
  description->semantics = "fairdraw";
  description->abilities =
      FAIRDRAW_CAN_MARK_BY_KEY | FAIRDRAW_REPORTS_STATUS | FAIRDRAW_PER_REQUEST_SEEDS;
  description->randomness = FAIRDRAW_SEEDS_INDEPENDENT | FAIRDRAW_OFFSETS_INDEPENDENT |
                            FAIRDRAW_OUTPUTS_INDEPENDENT | FAIRDRAW_REPLAYS_EQUAL;
  return 0;
}

static uint64_t mixed(uint64_t x) { /* the last step of the generator splitmix64 */
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static uint64_t hashed(uint64_t state, uint64_t word) {
  return mixed(mixed(state + UINT64_C(0x9e3779b97f4a7c15)) + word);
}

/* memcpy is used because rows may lie at any address */
static float loaded(const void* logits, int64_t i) {
  float value;
  memcpy(&value, (const char*)logits + i * (int64_t)sizeof(value), sizeof(value));
  return value;
}

/* The token with the first arrival of a race: the words of all tokens follow from `state`, which is
   a hash of seed and offset, or of key and context. */
static int32_t draw(const void* logits, int64_t vocab, double temperature, uint64_t state,
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
  double first = INFINITY;
  for (int64_t i = 0; i < vocab; ++i) {
    if (loaded(logits, i) == -INFINITY) continue;
    const double u = ((double)(hashed(state, (uint64_t)i) >> 11) + 0.5) * 0x1p-53;
    /* the logarithm of the arrival time, which has no overflow */
    const double arrival = log(-log(u)) - (loaded(logits, i) - largest) / temperature;
    if (arrival >= first) continue;
    first = arrival;
    *token = (int32_t)i;
  }
  return FAIRDRAW_ROW_OK;
}

/* Returns whether the last `window` ids have occurred before. */
static int is_repeated(const int32_t* ids, int64_t size, int64_t window) {
  const int32_t* const context = ids + size - window;
  for (const int32_t* at = ids; at < context; ++at) {
    if (at[0] >= 0 && memcmp(at, context, (size_t)window * sizeof(*at)) == 0) return 1;
  }
  return 0;
}

int32_t fairdraw_plugin_run(const fairdraw_batch* batch, char* message, size_t message_size) {
  (void)message, (void)message_size;
  for (int64_t row = 0; row < batch->rows; ++row) {
    const int64_t at = batch->seed_is_scalar ? 0 : row;
    uint64_t state = hashed(hashed(batch->seed[at], batch->offset[at]), (uint64_t)(row - at));
    const uint64_t key = batch->mark_key ? batch->mark_key[row] : 0;
    if (key != 0) {
      const int64_t size = batch->mark_output_size, window = batch->mark_window;
      const int32_t* const ids = batch->mark_output + row * size;
      if (!is_repeated(ids, size, window)) {
        state = ~key;
        for (int64_t i = size - window; i < size; ++i) {
          state = hashed(state, (uint64_t)(ids[i] + 1));
        }
      }
    }
    const void* logits = (const char*)batch->logits + row * batch->row_stride * 4;
    const int32_t status =
        draw(logits, batch->vocab, batch->temperature[row], state, &batch->tokens[row]);
    if (batch->statuses) batch->statuses[row] = status;
  }
  return 0;
}
