/* This plugin fits on one page: greedy and categorical sampling by inversion, on the GPU. Each
 * output has one block, and each thread has a run of adjacent ids, so that prefix sums are in the
 * order of ids.
 *
 *     nvcc -O2 -shared -Xcompiler -fPIC -I PREFIX/include greedy_and_categorical.cu -o sampler.so
 *     fairdraw verify --sampler plugin:./sampler.so
 */
#include <cuda_runtime.h>
#include <fairdraw/plugin.h>
#include <math.h>
#include <stdio.h>

const uint32_t fairdraw_plugin_abi = FAIRDRAW_PLUGIN_ABI;

int32_t fairdraw_plugin_describe(fairdraw_plugin_description* description, char*, size_t) {
  description->pointers = FAIRDRAW_DEVICE_POINTERS;
  description->name = "greedy_and_categorical on CUDA";
  description->version = "1.0";
  description->semantics = "fairdraw";
  description->abilities = FAIRDRAW_CAN_INDICES | FAIRDRAW_CAN_NUM_SAMPLES |
                           FAIRDRAW_REPORTS_STATUS | FAIRDRAW_PER_REQUEST_SEEDS;
  description->randomness = FAIRDRAW_SEEDS_INDEPENDENT | FAIRDRAW_OFFSETS_INDEPENDENT |
                            FAIRDRAW_OUTPUTS_INDEPENDENT | FAIRDRAW_SAMPLES_INDEPENDENT |
                            FAIRDRAW_REPLAYS_EQUAL;
  return 0;
}

constexpr int kThreads = 256;

__device__ uint64_t mixed(uint64_t x) { /* the last step of the generator splitmix64 */
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

__device__ double uniform(uint64_t seed, uint64_t offset, uint64_t index) { /* in [0, 1) */
  uint64_t state = mixed(seed + 0x9e3779b97f4a7c15);
  state = mixed((state ^ mixed(offset + 0xd1b54a32d192ed03)) + index);
  return (double)(mixed(state) >> 11) * 0x1p-53;
}

/* memcpy is used because rows may lie at any address */
__device__ float loaded(const void* logits, int64_t i) {
  float value;
  memcpy(&value, (const char*)logits + i * sizeof(value), sizeof(value));
  return value;
}

__global__ void draw(fairdraw_batch batch) {
  __shared__ double sums[kThreads];
  __shared__ int64_t best_ids[kThreads];
  __shared__ int bad[2];
  const int64_t output = blockIdx.x, at = batch.seed_is_scalar ? 0 : output;
  const int64_t row = batch.indices ? batch.indices[output] : output;
  int32_t* const tokens = batch.tokens + output * batch.num_samples;
  if (threadIdx.x < 2) bad[threadIdx.x] = 0;
  __syncthreads();
  const auto fail = [&](int32_t status) {
    for (int i = threadIdx.x; i < batch.num_samples; i += kThreads) tokens[i] = -1;
    if (threadIdx.x == 0 && batch.statuses) batch.statuses[output] = status;
  };
  if (row < 0 || row >= batch.rows) return fail(FAIRDRAW_ROW_INDEX_OUT_OF_RANGE);
  const double temperature = batch.temperature[row];
  if (!(temperature == 0 || (temperature >= 0x1p-126 && temperature <= 0x1p64))) {
    return fail(FAIRDRAW_ROW_INVALID_TEMPERATURE);
  }
  const auto logit = [&](int64_t i) { return loaded(batch.logits, row * batch.row_stride + i); };
  const int64_t run = (batch.vocab + kThreads - 1) / kThreads;
  const int64_t first = min(threadIdx.x * run, batch.vocab);
  const int64_t last = min(first + run, batch.vocab);
  int64_t best = min(first, batch.vocab - 1);
  for (int64_t i = first; i < last; ++i) {
    if (isnan(logit(i))) bad[0] = 1;
    if (logit(i) == INFINITY) bad[1] = 1;
    if (logit(i) > logit(best)) best = i;
  }
  best_ids[threadIdx.x] = best;
  __syncthreads();
  if (bad[0]) return fail(FAIRDRAW_ROW_NAN_INPUT);
  if (bad[1]) return fail(FAIRDRAW_ROW_INFINITE_INPUT);
  best = best_ids[0];
  for (int i = 1; i < kThreads; ++i) {
    if (logit(best_ids[i]) > logit(best)) best = best_ids[i];
  }
  if (logit(best) == -INFINITY) return fail(FAIRDRAW_ROW_NO_ALLOWED_TOKEN);
  const double largest = logit(best);
  const auto weight = [&](int64_t i) { return exp((logit(i) - largest) / temperature); };
  double sum = 0;
  for (int64_t i = first; i < last && temperature > 0; ++i) sum += weight(i);
  sums[threadIdx.x] = sum;
  __syncthreads();
  double before = 0, total = 0;
  for (int i = 0; i < kThreads; ++i) {
    if (i == (int)threadIdx.x) before = total;
    total += sums[i];
  }
  if (threadIdx.x == 0 && batch.statuses) batch.statuses[output] = FAIRDRAW_ROW_OK;
  for (int sample = 0; sample < batch.num_samples; ++sample) {
    const uint64_t index = (batch.seed_is_scalar ? output * batch.num_samples : 0) + sample;
    const double target = uniform(batch.seed[at], batch.offset[at], index) * total;
    if (temperature == 0) {
      tokens[sample] = (int32_t)best;
    } else if (before <= target && target < before + sum) { /* true in exactly one thread */
      double prefix = before;
      for (int64_t i = first; i < last && prefix <= target; ++i) {
        prefix += weight(i);
        if (weight(i) > 0) tokens[sample] = (int32_t)i;
      }
    }
  }
}

int32_t fairdraw_plugin_run(const fairdraw_batch* batch, char* message, size_t message_size) {
  if (batch->outputs > 0) draw<<<(unsigned)batch->outputs, kThreads>>>(*batch);
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  if (error != cudaSuccess) snprintf(message, message_size, "%s", cudaGetErrorString(error));
  return error != cudaSuccess;
}
