/* This plugin is an example to start from. The plugin has temperature, top_k, top_p, min_p and a
 * mask of allowed ids, in float64 on the CPU, with per-request seeds, statuses, masks and
 * probabilities. The plugin sorts each row. To judge another sampler, replace `prepare` by it, and
 * keep the rest.
 *
 *     cc -std=c11 -O2 -shared -fPIC -I PREFIX/include filters_and_masks.c -lm -o sampler.so
 *     fairdraw verify --sampler plugin:./sampler.so
 */
#include <fairdraw/plugin.h>
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const uint32_t fairdraw_plugin_abi = FAIRDRAW_PLUGIN_ABI;

/* Abilities that are declared are judged, and all others are skipped. The report names the
   abilities to declare next. */
int32_t fairdraw_plugin_describe(fairdraw_plugin_description* description, char* message,
                                 size_t message_size) {
  (void)message, (void)message_size;
  description->pointers = FAIRDRAW_HOST_POINTERS;
  description->name = "filters_and_masks";
  description->version = "1.0";
  description->semantics = "fairdraw";
  description->abilities =
      FAIRDRAW_CAN_TOP_K | FAIRDRAW_CAN_TOP_P | FAIRDRAW_CAN_MIN_P | FAIRDRAW_CAN_ALLOWED_MASK |
      FAIRDRAW_CAN_ACTIVE_ROWS | FAIRDRAW_CAN_INDICES | FAIRDRAW_CAN_NUM_SAMPLES |
      FAIRDRAW_CAN_BFLOAT16 | FAIRDRAW_CAN_LOWEST_ID_TIES | FAIRDRAW_PER_REQUEST_SEEDS |
      FAIRDRAW_REPORTS_STATUS | FAIRDRAW_REPORTS_SUPPORT | FAIRDRAW_REPORTS_MASK |
      FAIRDRAW_REPORTS_PROBS | FAIRDRAW_REPORTS_LOGPROBS;
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

/* Returns a random number, uniform in [0, 1). `index` has the low 32 bits of the counter, and
   `attempt` the high ones. */
static double uniform(uint64_t seed, uint64_t offset, uint64_t index, uint64_t attempt) {
  uint64_t state = mixed(seed + UINT64_C(0x9e3779b97f4a7c15));
  state = mixed((state ^ mixed(offset + UINT64_C(0xd1b54a32d192ed03))) + (attempt << 32 | index));
  return (double)(mixed(state) >> 11) * 0x1p-53;
}

/* memcpy is used because rows may lie at any address */
static float loaded(const fairdraw_batch* batch, int64_t at) {
  float value;
  if (batch->dtype == 0) {
    memcpy(&value, (const char*)batch->logits + at * 4, sizeof(value));
  } else { /* a bfloat16 is the upper half of a float32 */
    uint16_t upper;
    memcpy(&upper, (const char*)batch->logits + at * 2, sizeof(upper));
    const uint32_t bits = (uint32_t)upper << 16;
    memcpy(&value, &bits, sizeof(value));
  }
  return value;
}

struct candidate {
  float logit;
  int32_t id;
};

static int by_falling_logit(const void* left,
                            const void* right) { /* among equal logits, the lower id comes first */
  const struct candidate *a = left, *b = right;
  if (a->logit != b->logit) return a->logit > b->logit ? -1 : 1;
  return a->id < b->id ? -1 : a->id > b->id;
}

/* A row with its candidates in the order of descending logits, and their weights. The first `kept`
   candidates survive the filters. */
struct row {
  int64_t number; /* -1: no row has been prepared */
  int32_t status;
  int64_t size, kept;
  struct candidate* candidates;
  double*
      weights; /* exp((logit - largest) / temperature), or exp(logit - largest) at temperature 0 */
  double total, all; /* the sum of the kept weights, and the sum of all weights */
};

static int32_t status_of(const fairdraw_batch* batch, int64_t r, struct row* row) {
  if (batch->active && !batch->active[r]) return FAIRDRAW_ROW_INACTIVE;
  const float temperature = batch->temperature[r];
  if (!(temperature == 0 || (temperature >= 0x1p-126F && temperature <= 0x1p64F))) {
    return FAIRDRAW_ROW_INVALID_TEMPERATURE;
  }
  if (batch->top_k[r] < -1) return FAIRDRAW_ROW_INVALID_TOP_K;
  if (!(batch->top_p[r] >= 0 && batch->top_p[r] <= 1)) return FAIRDRAW_ROW_INVALID_TOP_P;
  if (!(batch->min_p[r] >= 0 && batch->min_p[r] <= 1)) return FAIRDRAW_ROW_INVALID_MIN_P;
  int infinite = 0;
  for (int64_t i = 0; i < batch->vocab; ++i) {
    const float logit = loaded(batch, r * batch->row_stride + i);
    if (isnan(logit)) return FAIRDRAW_ROW_NAN_INPUT;
    infinite = infinite || logit == INFINITY;
    const uint32_t* const words = batch->allowed ? batch->allowed + r * batch->allowed_stride : 0;
    if (logit == -INFINITY || (words && !(words[i / 32] >> (i % 32) & 1))) continue;
    row->candidates[row->size].logit = logit;
    row->candidates[row->size++].id = (int32_t)i;
  }
  if (infinite) return FAIRDRAW_ROW_INFINITE_INPUT;
  return row->size == 0 ? FAIRDRAW_ROW_NO_ALLOWED_TOKEN : FAIRDRAW_ROW_OK;
}

/* Returns the number of candidates that min_p, then top_k, then top_p keep, ties included. */
static int64_t kept_by(const fairdraw_batch* batch, int64_t r, const struct row* row) {
  const struct candidate* const candidates = row->candidates;
  const int32_t k = batch->top_k[r];
  if (batch->temperature[r] == 0 || k == 1 || batch->top_p[r] == 0) return 1;
  int64_t kept = row->size;
  /* the loop ends, because the first candidate has weight 1 */
  while (row->weights[kept - 1] < (double)batch->min_p[r]) --kept;
  if (k > 0 && k < kept) {
    int64_t end = k;
    while (batch->tie_rule == 0 && end < kept && candidates[end].logit == candidates[k - 1].logit) {
      ++end;
    }
    kept = end;
  }
  if (batch->top_p[r] == 1) return kept;
  double total = 0, above = 0;
  for (int64_t i = 0; i < kept; ++i) total += row->weights[i];
  int64_t end = 0;
  /* the candidate that crosses p is kept */
  while (end < kept && above < (double)batch->top_p[r] * total) {
    const float logit = candidates[end].logit;
    while (end < kept && candidates[end].logit == logit) above += row->weights[end++];
  }
  return end;
}

static void prepare(const fairdraw_batch* batch, int64_t r, struct row* row) {
  row->number = r;
  row->size = row->kept = 0;
  row->total = row->all = 0;
  row->status = status_of(batch, r, row);
  if (row->status != FAIRDRAW_ROW_OK) return;
  qsort(row->candidates, (size_t)row->size, sizeof(struct candidate), by_falling_logit);
  const double temperature = batch->temperature[r] == 0 ? 1 : (double)batch->temperature[r];
  for (int64_t i = 0; i < row->size; ++i) {
    const double below = (double)row->candidates[i].logit - (double)row->candidates[0].logit;
    row->weights[i] = exp(below / temperature);
    row->all += row->weights[i];
  }
  row->kept = kept_by(batch, r, row);
  for (int64_t i = 0; i < row->kept; ++i) row->total += row->weights[i];
}

static void report_row(const fairdraw_batch* batch, const struct row* row) {
  if (row->status == FAIRDRAW_ROW_INACTIVE) return; /* because padding rows are not written */
  uint32_t* const mask = batch->mask ? batch->mask + row->number * batch->mask_stride : 0;
  float* const probs = batch->probs ? batch->probs + row->number * batch->probs_stride : 0;
  if (mask) memset(mask, 0, (size_t)((batch->vocab + 31) / 32) * sizeof(*mask));
  for (int64_t i = 0; probs && i < batch->vocab; ++i) probs[i] = 0;
  for (int64_t i = 0; i < row->kept; ++i) {
    const int32_t id = row->candidates[i].id;
    if (mask) mask[id / 32] |= UINT32_C(1) << (id % 32);
    if (probs) probs[id] = (float)(row->weights[i] / row->total);
  }
}

static int64_t place_of(const struct row* row, double target, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    sum += row->weights[i];
    if (sum > target) return i;
  }
  return size - 1;
}

/* Returns the index of the first candidate, drawn without filters, that the filters keep. */
static int64_t drawn(const struct row* row, uint64_t seed, uint64_t offset, uint64_t index) {
  enum { attempts = 64 };
  for (uint64_t attempt = 0; row->kept > 1 && attempt < attempts; ++attempt) {
    const double u = uniform(seed, offset, index, attempt);
    const int64_t i = place_of(row, u * row->all, row->size);
    if (i < row->kept) return i;
  }
  return place_of(row, uniform(seed, offset, index, attempts) * row->total, row->kept);
}

static void draw_output(const fairdraw_batch* batch, int64_t output, const struct row* row) {
  const int64_t at = batch->seed_is_scalar ? 0 : output;
  const uint64_t base = batch->seed_is_scalar ? (uint64_t)(output * batch->num_samples) : 0;
  if (batch->statuses) batch->statuses[output] = row->status;
  if (batch->support_size) batch->support_size[output] = (int32_t)row->kept;
  for (int32_t sample = 0; sample < batch->num_samples; ++sample) {
    const int64_t to = output * batch->num_samples + sample;
    batch->tokens[to] = -1;
    if (batch->logprob) batch->logprob[to] = -INFINITY;
    if (batch->logprob_filtered) batch->logprob_filtered[to] = -INFINITY;
    if (row->status != FAIRDRAW_ROW_OK) continue;
    const int64_t i = drawn(row, batch->seed[at], batch->offset[at], base + (uint64_t)sample);
    batch->tokens[to] = row->candidates[i].id;
    if (batch->logprob) batch->logprob[to] = (float)log(row->weights[i] / row->all);
    if (batch->logprob_filtered) {
      batch->logprob_filtered[to] = (float)fmin(log(row->weights[i] / row->total), 0);
    }
  }
}

int32_t fairdraw_plugin_run(const fairdraw_batch* batch, char* message, size_t message_size) {
  (void)message, (void)message_size;
  const size_t vocab = (size_t)batch->vocab;
  struct row row = {.number = -1};
  row.candidates = malloc(vocab * sizeof(*row.candidates));
  row.weights = malloc(vocab * sizeof(double));
  if (!row.candidates || !row.weights) abort();
  fenv_t of_caller; /* the caller's floating-point environment must not change a token */
  fegetenv(&of_caller);
  fesetenv(FE_DFL_ENV);
  for (int64_t r = 0; (batch->mask || batch->probs) && r < batch->rows; ++r) {
    prepare(batch, r, &row);
    report_row(batch, &row);
  }
  const struct row no_row = {.status = FAIRDRAW_ROW_INDEX_OUT_OF_RANGE};
  for (int64_t output = 0; output < batch->outputs; ++output) {
    const int64_t r = batch->indices ? batch->indices[output] : output;
    const int exists = r >= 0 && r < batch->rows;
    if (exists && r != row.number) prepare(batch, r, &row);
    draw_output(batch, output, exists ? &row : &no_row);
  }
  fesetenv(&of_caller);
  free(row.candidates), free(row.weights);
  return 0;
}
