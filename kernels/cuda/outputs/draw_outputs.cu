// Outputs of filtered rows: tokens, log-probabilities, support sizes, statuses.
//
// Contract. For each output, of row indices[i] or row i: num_samples tokens drawn with replacement,
// the log-probability of each before the filters and among the survivors, the number of survivors,
// and the row's status. An index out of its range fails its output alone. A failed output has
// tokens -1, log-probabilities -inf and support 0. Where the row kernel has drawn the tokens
// already they are read, not drawn again. Each output is written by one block and depends on its
// row, seed and offset alone.
//
// Algorithm and cost. A block an output; nothing is read of a row from which nothing is drawn or
// counted. Else one pass over the row gives the prefix sums of prefix_draw.cuh, the number of
// survivors and the weight of all allowed tokens together; then every warp draws samples, each by
// reading 1/256 of the row. Outputs that share a row repeat its pass: from L2, mostly.
//
// Randomness. One Philox word a token: key = seed, counter = {offset, purpose, index}; index is the
// sample's number where seeds are an array, the token's number in the call for a scalar seed.
//
// Numerics. Tokens and counts from integers alone. Log-probabilities in double from integer
// masses: (x - max) / T - log(mass / 2^40), rounded to float32 once. Determinism: sums are
// integers; no order shows.
#include <math_constants.h>

#include <cstdint>

#include "common/philox.h"
#include "common/wide_integers.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/outputs/draw_outputs.h"
#include "cuda/outputs/prefix_draw.cuh"
#include "cuda/row_filter/filtered_row.cuh"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 512;

/// Shared memory of a block.
struct Shared {
  PrefixSums<std::uint64_t> sums;
  BlockScratch<std::uint64_t> scratch;
};

/// What a pass over the row finds besides the prefix sums.
struct RowMeasures {
  std::uint64_t survivors = 0;   ///< how many
  std::uint64_t unfiltered = 0;  ///< weight of all allowed tokens; 0 where it was not asked for
};

__device__ RowMeasures measure(const FilteredRow& row, bool wants_unfiltered, Shared& shared) {
  RowMeasures mine;
  sum_ranges(shared.sums, row.vocab, [&](std::int64_t token) -> std::uint64_t {
    const float x = row.value(token);
    const bool kept = row.keeps(token, x);
    mine.survivors += kept ? 1 : 0;
    const bool counts = wants_unfiltered && row.is_allowed(token, x);
    const std::uint64_t weight = kept || counts ? row.weigh(x) : 0;
    mine.unfiltered += counts ? weight : 0;
    return kept ? weight : 0;
  });
  return {reduce_block(mine.survivors, shared.scratch, Add{}),
          reduce_block(mine.unfiltered, shared.scratch, Add{})};
}

__device__ void write_failure(const OutputsTask& task, std::int64_t output) {
  if (threadIdx.x == 0 && task.support_size != nullptr) task.support_size[output] = 0;
  const bool wants_tokens = task.tokens != nullptr && !task.tokens_are_drawn;
  for (std::int64_t sample = threadIdx.x; sample < task.num_samples; sample += blockDim.x) {
    const std::int64_t at = output * task.num_samples + sample;
    if (wants_tokens) task.tokens[at] = -1;
    if (task.logprob != nullptr) task.logprob[at] = -CUDART_INF_F;
    if (task.logprob_filtered != nullptr) task.logprob_filtered[at] = -CUDART_INF_F;
  }
}

/// The samples of an output whose row is ok, a warp each.
__device__ void write_samples(const OutputsTask& task, std::int64_t output, std::int64_t number,
                              const FilteredRow& row, const RowMeasures& measures,
                              const Shared& shared) {
  const RowRecord& record = task.filtered.records[number];
  const float temperature = task.filtered.temperature.at(number);
  const float divisor = temperature == 0.0F ? 1.0F : temperature;
  const std::uint64_t seed = task.seed.at(output);
  const std::uint64_t offset = task.offset.at(output);
  for (std::int64_t sample = warp_of_thread(); sample < task.num_samples;
       sample += warps_of_block()) {
    const std::int64_t at = output * task.num_samples + sample;
    std::int32_t token = row.greedy_token;
    if (task.tokens_are_drawn) {
      token = task.tokens[at];
    } else if (token < 0) {
      const auto index = static_cast<std::uint32_t>(task.seed.is_array() ? sample : at);
      const std::uint64_t word = random_word(seed, offset, task.purpose, index);
      const std::uint64_t t = multiply_high(word, shared.sums.inclusive[kRanges - 1]);
      token = draw_token(shared.sums, row.vocab, t,
                         [&](std::int64_t candidate) { return row.survivor_weight(candidate); });
    }
    if (lane_of_thread() != 0) continue;
    if (!task.tokens_are_drawn) task.tokens[at] = token;
    if (task.logprob != nullptr) {
      task.logprob[at] = static_cast<float>(
          log_probability(row.value(token), record.max, divisor, log_mass_of(measures.unfiltered)));
    }
    if (task.logprob_filtered != nullptr) {
      const double filtered =
          row.greedy_token >= 0
              ? 0.0
              : log_probability(row.value(token), record.max, divisor, log_mass_of(record.total));
      task.logprob_filtered[at] = static_cast<float>(fmin(0.0, filtered));
    }
  }
}

__device__ void write_output(const OutputsTask& task, std::int64_t output, Shared& shared) {
  const FilteredRows& filtered = task.filtered;
  const std::int64_t number = task.indices.given() ? task.indices.data[output] : output;
  const bool in_range = number >= 0 && number < filtered.rows.rows;
  const RowStatus status =
      in_range ? filtered.records[number].status : RowStatus::index_out_of_range;
  if (threadIdx.x == 0 && task.statuses != nullptr) task.statuses[output] = status;
  if (status != RowStatus::ok) {
    write_failure(task, output);
    return;
  }
  const FilteredRow row = FilteredRow::of(filtered, number);
  const bool greedy = row.greedy_token >= 0;
  const bool draws = task.tokens != nullptr && !task.tokens_are_drawn && !greedy;
  const bool counts = task.support_size != nullptr && !greedy;
  const bool wants_unfiltered = task.logprob != nullptr;
  RowMeasures measures{1, 0};
  if (draws || counts || wants_unfiltered) measures = measure(row, wants_unfiltered, shared);
  if (threadIdx.x == 0 && task.support_size != nullptr) {
    task.support_size[output] = static_cast<std::int32_t>(measures.survivors);
  }
  if (task.tokens != nullptr) write_samples(task, output, number, row, measures, shared);
}

__global__ void __launch_bounds__(kThreads) draw_outputs_kernel(OutputsTask task) {
  __shared__ Shared shared;
  for (std::int64_t output = blockIdx.x; output < task.outputs; output += gridDim.x) {
    write_output(task, output, shared);
    __syncthreads();  // the sums are read until the last warp has drawn
  }
}

}  // namespace

cudaError_t draw_outputs(const OutputsTask& task, cudaStream_t stream) {
  return launch_blocks(draw_outputs_kernel, task.outputs, kThreads, stream, task);
}

}  // namespace fairdraw::cuda
