// Writes the outputs of filtered rows, which are tokens, log-probabilities, support sizes and
// statuses.
//
// Contract. Output i belongs to row indices[i], or to row i in a call without indices. It has
// num_samples tokens drawn with replacement, the log-probability of each token before the filters
// and among the survivors, the number of survivors, and the status of the row. An index that is out
// of range makes only its own output fail. An output that fails has tokens -1, log-probabilities
// -inf and support size 0. Tokens that the row kernel has already drawn are read, and not drawn
// again. Each output is written by one block and depends only on its row, its seed and its offset.
//
// Algorithm and cost. Each output has one block. If no token is drawn from a row and its survivors
// are not counted, the row is not read. Otherwise, one pass over the row makes an index of the
// survivors in shared memory, with one warp per tile of 256 ids: the largest allowed value of each
// tile, and the weight of its survivors. The same pass finds the number of survivors and the weight
// of all allowed tokens. If the row's tokens are drawn by proposals, the pass also finds the
// weight of the allowed tokens of each tile. Then every warp draws some of the samples from the
// index (tiles/tile_draw.cuh), and reads one tile again for each sample. A proposal is drawn from
// all allowed tokens of the tiles, and accepted if the threshold in the row's record keeps it. Each
// output of a row repeats the pass over the row, which then is mostly read from the L2 cache.
//
// Randomness. Each token takes one word of Philox, with the key = seed and the counter = {offset,
// purpose, index}. The index is the number of the sample if the seeds are an array; if all outputs
// share a seed, the index is the number of the token in the call. Each proposal has a random word
// of its own (common/proposals.h).
//
// Numerics. Tokens and counts are computed from integers only (common/tile_weights.h).
// Log-probabilities are computed with doubles from integer masses, as (x - max) / T -
// log_mass_of(W), and rounded to float32 once. Determinism: all sums are sums of integers, so the
// result does not depend on the order of threads.
#include <math_constants.h>

#include <cstdint>

#include "common/float_order.h"
#include "common/proposals.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/outputs/draw_outputs.h"
#include "cuda/rows/filtered_row.cuh"
#include "cuda/rows/tile_launch.cuh"
#include "cuda/tiles/row_index.cuh"
#include "cuda/tiles/row_weigher.cuh"
#include "cuda/tiles/tile_draw.cuh"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 512;

/// Shared memory of a block in addition to the index of survivors.
struct Shared {
  TileGroups groups;
  TileGroups proposed;  ///< groups of tiles for the draws of proposals
  BlockScratch<std::int32_t> count;
  BlockScratch<uint128_t> mass;
};

/// Index of a row's survivors in shared memory, with the sums of all allowed tokens.
struct SurvivorIndex {
  std::uint64_t* sums;
  std::uint64_t* whole;
  std::int32_t* keys;

  __device__ SurvivorIndex(unsigned char* memory, int tiles)
      : sums(reinterpret_cast<std::uint64_t*>(memory)),
        whole(sums + tiles),
        keys(reinterpret_cast<std::int32_t*>(whole + tiles)) {}

  static constexpr int bytes(std::int64_t tiles) {
    return index_bytes(tiles) + static_cast<int>(tiles) * static_cast<int>(sizeof(std::uint64_t));
  }
};

/// Results of the pass over a row in addition to the index of survivors.
struct RowMeasures {
  std::int32_t survivors;  ///< number of survivors
  uint128_t unfiltered;    ///< weight of all allowed tokens, or 0 if not requested
};

/// Returns the rule from which the weights of a row's values follow.
__device__ TileWeighing rule_of(const FilteredRows& filtered, std::int64_t number) {
  const float temperature = filtered.from_probs ? 1.0F : filtered.temperature.at(number);
  return {logit_scale(temperature == 0.0F ? 1.0F : temperature), true};
}

/// Makes the index of survivors by a pass over the row, with a whole block. The function ends with
/// a barrier.
template <bool kFromProbs>
__device__ RowMeasures measure(const FilteredRow& row, const TileWeighing& rule, float max,
                               bool wants_unfiltered, bool proposes, const SurvivorIndex& index,
                               Shared& shared) {
  const auto tiles = static_cast<int>(tiles_of(row.vocab));
  const RowWeigher<kFromProbs> weigher(rule, order_key(max));
  std::int32_t survivors = 0;
  uint128_t unfiltered = 0;
  for (int tile = warp_of_thread(); tile < tiles; tile += warps_of_block()) {
    const std::int64_t first = std::int64_t{tile} * kTileSize + lane_of_thread();
    float x[kLaneValues];
    row.read(first, kWarp, x);
    std::int32_t key = kEmptyTileKey;
#pragma unroll
    for (const float value : x) key = value >= row.smallest ? ::max(key, order_key(value)) : key;
    key = __reduce_max_sync(kAllLanes, key);
    std::uint64_t kept = 0;
    std::uint64_t all = 0;
    if (key > kEmptyTileKey) {
      const TileWeights<kFromProbs> weights(from_order_key(key), rule);
      const bool quick = weights.are_quick();
#pragma unroll
      for (int i = 0; i < kLaneValues; ++i) {
        const std::uint64_t weight = quick ? weights.weigh(x[i]) : weights.weigh_slowly(x[i]);
        const bool survives = row.keeps_read(first + i * kWarp, x[i]);
        survivors += survives ? 1 : 0;
        kept += survives ? weight : 0;
        all += weight;
      }
      if (wants_unfiltered) unfiltered += row_weight(all, weigher.shift_of(key));
    }
    kept = warp_sum_of_tile(kept);
    if (proposes) all = warp_sum_of_tile(all);
    if (lane_of_thread() == 0) {
      index.keys[tile] = key;
      index.sums[tile] = kept;
      index.whole[tile] = all;
    }
  }
  return {reduce_block(survivors, shared.count, Add{}),
          wants_unfiltered ? reduce_block(unfiltered, shared.mass, Add{}) : uint128_t{0}};
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

/// Writes the samples of an output whose row is ok, with one warp per sample. The function draw(at,
/// words) must return the token of a sample, given the sample's index among all samples and its
/// random words.
template <class Draw>
__device__ void write_samples(const OutputsTask& task, std::int64_t output, std::int64_t number,
                              const FilteredRow& row, uint128_t unfiltered, const Draw& draw) {
  const RowRecord& record = task.filtered.records[number];
  const float temperature = task.filtered.temperature.at(number);
  const float divisor = temperature == 0.0F ? 1.0F : temperature;
  const float scale = logit_scale(divisor);
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
      token = draw(at, DrawWords{seed, offset, task.purpose, index});
    }
    if (lane_of_thread() != 0) continue;
    if (!task.tokens_are_drawn) task.tokens[at] = token;
    if (task.logprob != nullptr) {
      const double log_mass = log_mass_of(unfiltered, record.max, scale);
      task.logprob[at] =
          static_cast<float>(log_probability(row.value(token), record.max, divisor, log_mass));
    }
    if (task.logprob_filtered != nullptr) {
      const double filtered =
          row.greedy_token >= 0 ? 0.0
                                : log_probability(row.value(token), record.max, divisor,
                                                  log_mass_of(record.weight(), record.max, scale));
      task.logprob_filtered[at] = static_cast<float>(fmin(0.0, filtered));
    }
  }
}

template <bool kFromProbs>
__device__ void write_output(const OutputsTask& task, std::int64_t output, Shared& shared,
                             unsigned char* memory) {
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
  const float max = filtered.records[number].max;
  const TileWeighing rule = rule_of(filtered, number);
  const auto tiles = static_cast<int>(tiles_of(row.vocab));
  const SurvivorIndex index(memory, tiles);
  const IndexedRow<FilteredRow, kFromProbs, CutRule> indexed(
      row, {index.keys, index.sums, tiles}, rule, {row.low, static_cast<int>(row.tie_end)},
      order_key(max));
  const bool greedy = row.greedy_token >= 0;
  const bool draws = task.tokens != nullptr && !task.tokens_are_drawn && !greedy;
  const bool counts = task.support_size != nullptr && !greedy;
  const bool wants_unfiltered = task.logprob != nullptr;
  const float floor = filtered.records[number].floor;
  const bool proposes = draws && task.words == nullptr && floor < INFINITY;
  RowMeasures measures{1, 0};
  if (draws || counts || wants_unfiltered) {
    measures = measure<kFromProbs>(row, rule, max, wants_unfiltered, proposes, index, shared);
  }
  if (threadIdx.x == 0 && task.support_size != nullptr) {
    task.support_size[output] = greedy ? 1 : measures.survivors;
  }
  if (task.tokens == nullptr) return;
  const IndexedRow<FilteredRow, kFromProbs, ProposedTiles> proposed(
      row, {index.keys, index.whole, tiles}, rule, {order_key(floor)}, order_key(max));
  if (draws) indexed.sum_groups(shared.groups, warps_of_block());
  if (proposes) proposed.sum_groups(shared.proposed, warps_of_block());
  if (draws) __syncthreads();
  write_samples(task, output, number, row, measures.unfiltered,
                [&](std::int64_t at, const DrawWords& words) {
                  for (std::uint32_t i = 0; proposes && i < kAttempts; ++i) {
                    const DrawnToken drawn = proposed.draw(shared.proposed, words.of_attempt(i));
                    if (row.survives(drawn.token, drawn.value)) return drawn.token;
                  }
                  std::uint64_t word = words.of_attempt(proposes ? kAttempts : 0);
                  if (task.words != nullptr) word = task.words[at];
                  return indexed.draw(shared.groups, word).token;
                });
}

template <bool kFromProbs>
__global__ void __launch_bounds__(kThreads)
    draw_outputs_kernel(const __grid_constant__ OutputsTask task, int) {
  __shared__ Shared shared;
  extern __shared__ __align__(16) unsigned char memory[];
  for (std::int64_t output = blockIdx.x; output < task.outputs; output += gridDim.x) {
    write_output<kFromProbs>(task, output, shared, memory);
    __syncthreads();  // wait, because the index is read until the last warp has drawn its token
  }
}

}  // namespace

cudaError_t draw_outputs(const OutputsTask& task, cudaStream_t stream) {
  constexpr std::int64_t kMax = std::int64_t{1} << 20;  // maximum number of blocks in a grid; each
                                                        // block processes several outputs if there
                                                        // are more
  const std::int64_t blocks = task.outputs < kMax ? task.outputs : kMax;
  const TileSpread spread{1, kThreads};
  const SpreadNeeds needs{
      [tiles = tiles_of(task.filtered.rows.vocab)](int) { return SurvivorIndex::bytes(tiles); },
      false};
  return task.filtered.from_probs
             ? launch_spread<draw_outputs_kernel<true>>(blocks, spread, needs, stream, task)
             : launch_spread<draw_outputs_kernel<false>>(blocks, spread, needs, stream, task);
}

}  // namespace fairdraw::cuda
