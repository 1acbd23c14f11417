/* This plugin has logits processing: penalties, biases and bans before a draw, in the order of
 * fairdraw/logits_processing.h, with each step rounded once to float32. The plugin has greedy
 * sampling, and categorical sampling by inversion, on the CPU.
 *
 *     cc -std=c11 -O2 -shared -fPIC -I PREFIX/include penalties_and_bans.c -lm -o sampler.so
 *     fairdraw verify --sampler plugin:./sampler.so
 *
 * The plugin reports no statuses; a bad row gives token -1.
 */
#include <fairdraw/plugin.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const uint32_t fairdraw_plugin_abi = FAIRDRAW_PLUGIN_ABI;

int32_t fairdraw_plugin_describe(fairdraw_plugin_description* description, char* message,
                                 size_t message_size) {
  (void)message, (void)message_size;
  description->pointers = FAIRDRAW_HOST_POINTERS;
  description->name = "penalties_and_bans";
  description->version = "1.0";
  description->semantics = "fairdraw";
  description->abilities = FAIRDRAW_CAN_PROCESSING | FAIRDRAW_CAN_TOP_N_SIGMA |
                           FAIRDRAW_CAN_ALLOWED_MASK | FAIRDRAW_PER_REQUEST_SEEDS;
  description->randomness = FAIRDRAW_SEEDS_INDEPENDENT | FAIRDRAW_OFFSETS_INDEPENDENT |
                            FAIRDRAW_OUTPUTS_INDEPENDENT | FAIRDRAW_REPLAYS_EQUAL;
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

/* A row of logits while it is processed. */
struct row {
  float* logits;
  int32_t* counts; /* in the output */
  char* flags;     /* seen; then: allowed */
  int64_t vocab;
  int bad;
};

/* The token ids in one list of a row. */
struct ids {
  const int32_t* first;
  int32_t length;
};

static struct ids ids_of(struct row* row, const fairdraw_token_lists* lists, int64_t r) {
  struct ids none = {0, 0};
  if (!lists->lengths) return none;
  const struct ids found = {lists->data ? lists->data + lists->begins[r] : 0, lists->lengths[r]};
  const int inside =
      lists->begins[r] >= 0 && found.length >= 0 && lists->begins[r] <= lists->size - found.length;
  if (inside) return found;
  row->bad = 1;
  return none;
}

static int is_token(struct row* row, int32_t id) {
  const int inside = id >= 0 && id < row->vocab;
  if (!inside) row->bad = 1; /* the caller has already handled -1 in histories */
  return inside;
}

static void penalise(struct row* row, const fairdraw_processing* p, int64_t r) {
  memset(row->flags, 0, (size_t)row->vocab);
  memset(row->counts, 0, (size_t)row->vocab * sizeof(int32_t));
  const struct ids prompt = ids_of(row, &p->prompt, r), output = ids_of(row, &p->output, r);
  for (int32_t i = 0; i < prompt.length; ++i) {
    if (prompt.first[i] != -1 && is_token(row, prompt.first[i])) row->flags[prompt.first[i]] = 1;
  }
  for (int32_t i = 0; i < output.length; ++i) {
    if (output.first[i] != -1 && is_token(row, output.first[i])) ++row->counts[output.first[i]];
  }
  const float repetition = p->repetition_penalty[r], frequency = p->frequency_penalty[r];
  const float presence = p->presence_penalty[r];
  if (!(repetition > 0 && isfinite(repetition) && isfinite(frequency) && isfinite(presence))) {
    row->bad = 1;
  }
  for (int64_t id = 0; id < row->vocab; ++id) {
    if (p->prompt_mask) {
      const uint32_t word = p->prompt_mask[r * ((row->vocab + 31) / 32) + id / 32];
      if ((word >> (id % 32)) & 1) row->flags[id] = 1;
    }
    if (p->output_counts) row->counts[id] = p->output_counts[r * row->vocab + id];
    const int32_t count = row->counts[id];
    float x = row->logits[id];
    if (row->flags[id] || count > 0) x = x > 0 ? x / repetition : x * repetition;
    if (count > 0) {
      const float frequencies = frequency * (float)count;
      x = x - frequencies;
      x = x - presence;
    }
    if (isfinite(row->logits[id]) && !isfinite(x)) row->bad = 1; /* downwards, too */
    row->logits[id] = x;
  }
}

static void add_biases(struct row* row, const fairdraw_processing* p, int64_t r) {
  const struct ids ids = ids_of(row, &p->bias_ids, r);
  const float* values = ids.length > 0 ? p->bias_values + p->bias_ids.begins[r] : 0;
  for (int32_t i = 0; i < ids.length; ++i) {
    int last = 1;
    for (int32_t j = i + 1; j < ids.length; ++j) last = last && ids.first[j] != ids.first[i];
    if (isnan(values[i]) || values[i] == INFINITY) row->bad = 1;
    if (!is_token(row, ids.first[i]) || !last) continue;
    float* const x = &row->logits[ids.first[i]];
    if (isfinite(*x) && isfinite(values[i]) && !isfinite(*x + values[i])) row->bad = 1;
    *x += values[i];
  }
}

/* Marks a row as bad if a step has made one of its logits NaN or +infinity. */
static void expect_no_overflow(struct row* row) {
  for (int64_t id = 0; id < row->vocab; ++id) {
    if (isnan(row->logits[id]) || row->logits[id] == INFINITY) row->bad = 1;
  }
}

static void ban(struct row* row, int32_t id) {
  if (is_token(row, id)) row->logits[id] = -INFINITY;
}

static void ban_ids(struct row* row, const fairdraw_processing* p, int64_t r) {
  const struct ids stop = ids_of(row, &p->stop_ids, r);
  const int32_t length = p->output_lengths ? p->output_lengths[r] : 0;
  if (length < 0 || p->min_tokens[r] < 0) row->bad = 1;
  for (int32_t i = 0; i < stop.length; ++i) {
    if (length < p->min_tokens[r]) ban(row, stop.first[i]);
  }
  const struct ids words = ids_of(row, &p->bad_words, r);
  const struct ids lengths = ids_of(row, &p->bad_word_lengths, r);
  const struct ids output = ids_of(row, &p->output, r);
  for (int32_t i = 0, begin = 0; i < lengths.length; begin += lengths.first[i++]) {
    const int32_t size = lengths.first[i];
    if (size < 1 || size > words.length - begin) {
      row->bad = 1;
      return;
    }
    /* the last id of a word is banned after the other ids */
    const int32_t* const word = words.first + begin;
    int matches = size - 1 <= output.length;
    for (int32_t j = 0; matches && j < size - 1; ++j) {
      matches = word[j] == output.first[output.length - (size - 1) + j];
    }
    if (matches) ban(row, word[size - 1]);
  }
  const struct ids allowed = ids_of(row, &p->allowed_ids, r);
  memset(row->flags, allowed.length == 0, (size_t)row->vocab);
  for (int32_t i = 0; i < allowed.length; ++i) {
    if (is_token(row, allowed.first[i])) row->flags[allowed.first[i]] = 1;
  }
  for (int64_t id = 0; id < row->vocab; ++id) {
    if (!row->flags[id]) row->logits[id] = -INFINITY;
  }
}

static void keep_top_n_sigma(struct row* row, float n) {
  double tokens = 0, mean = 0, squares = 0, largest = -INFINITY;
  if (!(n >= 0 || n == -1)) row->bad = 1;
  if (!(n > 0) || isinf(n)) return;
  for (int64_t id = 0; id < row->vocab; ++id) {
    if (row->logits[id] == -INFINITY) continue;
    tokens += 1, mean += row->logits[id];
    if (row->logits[id] > largest) largest = row->logits[id];
  }
  mean /= tokens;
  for (int64_t id = 0; id < row->vocab; ++id) {
    const double x = row->logits[id];
    if (x != -INFINITY) squares += (x - mean) * (x - mean);
  }
  const double least = largest - n * sqrt(squares / tokens);
  for (int64_t id = 0; id < row->vocab; ++id) {
    if (row->logits[id] < least) row->logits[id] = -INFINITY;
  }
}

static int32_t draw(const struct row* row, double temperature, double u) {
  if (!(temperature == 0 || (temperature >= 0x1p-126 && temperature <= 0x1p64))) return -1;
  int64_t best = 0;
  for (int64_t id = 0; id < row->vocab; ++id) {
    if (row->logits[id] > row->logits[best]) best = id;
  }
  const double largest = row->logits[best];
  if (largest == -INFINITY || row->bad) return -1;
  if (temperature == 0) return (int32_t)best;
  double total = 0;
  for (int64_t id = 0; id < row->vocab; ++id) {
    total += exp((row->logits[id] - largest) / temperature);
  }
  const double target = u * total; /* less than the total, because u < 1 */
  double sum = 0;
  for (int64_t id = 0; id < row->vocab; ++id) {
    sum += exp((row->logits[id] - largest) / temperature);
    if (sum > target) return (int32_t)id;
  }
  return (int32_t)best;
}

static int32_t sample(const fairdraw_batch* batch, int64_t r, struct row* row, double u) {
  const size_t bytes = (size_t)batch->vocab * sizeof(float);
  row->bad = 0;
  memcpy(row->logits, (const char*)batch->logits + r * batch->row_stride * 4, bytes);
  expect_no_overflow(row); /* also detects NaN and +inf among the input logits */
  if (batch->processing.repetition_penalty) {
    penalise(row, &batch->processing, r);
    expect_no_overflow(row);
    add_biases(row, &batch->processing, r);
    expect_no_overflow(row);
    ban_ids(row, &batch->processing, r);
  }
  for (int64_t id = 0; batch->allowed && id < batch->vocab; ++id) {
    const uint32_t word = batch->allowed[r * batch->allowed_stride + id / 32];
    if (!((word >> (id % 32)) & 1)) row->logits[id] = -INFINITY;
  }
  if (batch->processing.top_n_sigma) keep_top_n_sigma(row, batch->processing.top_n_sigma[r]);
  return draw(row, batch->temperature[r], u);
}

int32_t fairdraw_plugin_run(const fairdraw_batch* batch, char* message, size_t message_size) {
  const size_t vocab = (size_t)batch->vocab;
  struct row row = {malloc(vocab * sizeof(float)), malloc(vocab * sizeof(int32_t)), malloc(vocab),
                    batch->vocab, 0};
  const int there = row.logits && row.counts && row.flags;
  for (int64_t r = 0; there && r < batch->rows; ++r) {
    const uint64_t at = batch->seed_is_scalar ? 0 : (uint64_t)r;
    const uint64_t index = batch->seed_is_scalar ? (uint64_t)r : 0;
    batch->tokens[r] = sample(batch, r, &row, uniform(batch->seed[at], batch->offset[at], index));
  }
  free(row.logits);
  free(row.counts);
  free(row.flags);
  if (there) return 0;
  if (message_size > 0) strncpy(message, "no memory", message_size - 1);
  if (message_size > 0) message[message_size - 1] = '\0';
  return 1;
}
