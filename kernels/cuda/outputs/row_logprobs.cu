// Writes reports of log-probabilities: of tokens, with their ranks, of the n largest values, and of
// whole rows (fairdraw/log_probabilities.h).
//
// Contract. Reports describe rows that are already filtered, and tokens that were drawn or that the
// caller gives. An index or a given token that is out of range makes only its own output fail.
//
// Semantics. The reported values and their order are defined in fairdraw/log_probabilities.h. A
// reported row consists of a normaliser and of the tokens that have a value. In raw modes, all
// tokens above -inf have a value; in processed modes, the survivors of the filters have one. In the
// order of a row, the survivors precede all other tokens.
//
// Algorithm and cost. The rows have already been indexed: the index has the largest value of each
// tile of 256 ids and, in raw modes, the weight of each tile.
//   outputs   One block per output. The normaliser is in the record, or is the sum of the index.
//             The n largest are found through the tiles' largest values (row_heads.cuh). A listed
//             token has its rank from its place; for others the tiles that reach its value are
//             read, and the tokens before it are counted. That may be the whole row, so if ranks
//             are wanted up to 8 blocks share an output: the first finds the largest values while
//             the others count, each in its tiles.
//   all       One block per part of a row: one read and one write per value.
//
// Numerics. Values are computed with doubles from integer masses, as (x - max) / T -
// log_mass_of(W), and rounded to float32 once. Ranks and the order of tokens are exactly those of
// the logits. Determinism. Counts and places are integers, so the results do not depend on the
// order of threads.
#include <math_constants.h>

#include <cfloat>
#include <cstdint>

#include "cuda/device/block_sums.cuh"
#include "cuda/device/row_cluster.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/outputs/index_mass.cuh"
#include "cuda/outputs/row_heads.cuh"
#include "cuda/outputs/row_logprobs.h"
#include "cuda/rows/filtered_row.cuh"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = kEndThreads;
static_assert(kThreads >= kLargestTopN);

// --- One row -----------------------------------------------------------------------------------

__device__ RowStatus status_of_row(const LogprobsTask& task, std::int64_t number) {
  return task.filtered.records == nullptr ? task.index.statuses.data[number]
                                          : task.filtered.records[number].status;
}

/// Tokens of a row that have a reported value, and these values.
class ReportedRow {
 public:
  /// Constructs the view of a row whose status is ok. For a whole block.
  __device__ ReportedRow(const LogprobsTask& task, std::int64_t number, IndexMass::Scratch& scratch)
      : row_(is_raw(task.result.mode)
                 ? FilteredRow::whole(task.filtered.rows, number, /*from_probs=*/false)
                 : FilteredRow::of(task.filtered, number)),
        is_logprob_(is_logprobs(task.result.mode)) {
    if (is_raw(task.result.mode)) {
      if (!is_logprob_) return;
      const IndexMass mass =
          IndexMass::of(index_of(task.index, number, task.filtered.rows.vocab), scratch);
      max_ = mass.max;
      log_mass_ = mass.log_mass();
      return;
    }
    const RowRecord& record = task.filtered.records[number];
    const float temperature = task.filtered.temperature.at(number);
    max_ = record.max;
    divisor_ = temperature == 0.0F ? 1.0F : temperature;
    if (is_logprob_ && record.greedy_token < 0) {
      log_mass_ = log_mass_of(record.weight(), max_, logit_scale(divisor_));
    }
  }

  __device__ const FilteredRow& row() const { return row_; }
  __device__ bool counts(std::int64_t token, float x) const { return row_.keeps(token, x); }
  /// Returns whether a token has a reported value, given the token's value as FilteredRow::read
  /// reads it.
  __device__ bool counts_read(std::int64_t token, float x) const {
    return row_.keeps_read(token, x);
  }

  /// Returns the log-probability or the logit to report for a token that has a reported value.
  __device__ float value_of(float x) const {
    if (!is_logprob_) {
      // Division by 1 is exact, so that raw logits, and the logits of greedy rows, do not change.
      return fmaxf(-FLT_MAX, fminf(FLT_MAX, __fdiv_rn(x, divisor_)));
    }
    const double value = log_probability(x, max_, divisor_, log_mass_);
    // The value -inf is reserved for tokens without a reported value.
    return static_cast<float>(fmax(-static_cast<double>(FLT_MAX), fmin(0.0, value)));
  }

 private:
  FilteredRow row_;
  float max_ = 0, divisor_ = 1.0F;
  double log_mass_ = 0;
  bool is_logprob_ = false;
};

// --- The largest -------------------------------------------------------------------------------

/// Number of samples whose ranks the blocks of an output count between two barriers.
constexpr int kRanksAtOnce = 16;

/// Shared memory of a block in addition to the row's keys, which are in dynamic shared memory.
struct Shared {
  HeadSearch::Memory search;
  HeadEntries head;
  IndexMass::Scratch index;
  BlockScratch<std::int32_t> count;
  std::int32_t counted[kRanksAtOnce][kMaxBlocks];  ///< counts of each block, which the first block
                                                   ///< adds up
};

/// First entries in the order of a row, as far as this block knows them.
struct Top {
  int listed;         ///< number of entries that are listed in shared memory
  int kept;           ///< number of entries from the first on that have a reported value
  std::int32_t from;  ///< smallest key of the entries; the entries are all allowed values with at
                      ///< least this key

  /// Returns a Top that has no entries.
  __device__ static Top none() { return {0, 0, INT_MAX}; }
  __device__ bool lists(float x) const { return order_key(x) >= from; }
};

__device__ Top find_top(const LogprobsTask& task, const ReportedRow& reported,
                        const KeyedRow& keyed, Shared& shared) {
  if (task.result.top_n == 0) return Top::none();
  const RowIndex keys{keyed.keys, nullptr, keyed.tiles};
  const HeadSearch::Head head =
      HeadSearch(shared.search).find(keyed, find_tile_keys(keys), task.result.top_n, shared.head);
  int kept = 0;
  for (int first = 0; first < head.n; first += kThreads) {
    const int i = first + static_cast<int>(threadIdx.x);
    kept += __syncthreads_count(
        i < head.n && reported.counts(shared.head.id[i], shared.head.value[i]) ? 1 : 0);
  }
  return {head.n, kept, head.from};
}

__device__ void write_top(const LogprobsTask& task, std::int64_t output,
                          const ReportedRow& reported, const Top& top, const Shared& shared) {
  const auto i = static_cast<int>(threadIdx.x);
  if (i >= task.result.top_n) return;
  const std::int64_t at = output * task.result.top_n + i;
  const bool there = i < top.kept;
  if (task.result.top_ids.given()) task.result.top_ids.data[at] = there ? shared.head.id[i] : -1;
  if (task.result.top_values.given()) {
    task.result.top_values.data[at] =
        there ? reported.value_of(shared.head.value[i]) : -CUDART_INF_F;
  }
}

// --- Tokens ------------------------------------------------------------------------------------

/// Number of warps that count ranks in the tiles of an output, and the position of this warp among
/// these warps, which is negative if this warp does not count. If an output has at least 4 blocks,
/// the first block finds the largest values while the others count.
struct CountingWarps {
  int warp, warps;

  __device__ static CountingWarps of(const RowCluster& cluster) {
    constexpr int kEnough = 4;
    const int idle = cluster.blocks >= kEnough ? 1 : 0;
    return {(cluster.rank - idle) * warps_of_block() + warp_of_thread(),
            (cluster.blocks - idle) * warps_of_block()};
  }
};

/// Returns the number of tokens up to and including a given token, in this block's share of the
/// tiles; the token must have a reported value. If the token is in the list of the first block, the
/// number covers all tiles. All threads must call this function.
__device__ std::int32_t count_before(const LogprobsTask& task, const ReportedRow& reported,
                                     const KeyedRow& keyed, const RowCluster& cluster,
                                     std::int32_t token, float x, const Top& top, Shared& shared) {
  const bool at_least = task.result.rank_rule == RankRule::at_least;
  const auto comes_before = [&](float y, std::int64_t other) {
    return y > x || (y == x && (at_least || other <= token));
  };
  std::int32_t count = 0;
  if (top.lists(x)) {
    for (int i = static_cast<int>(threadIdx.x); i < top.kept; i += kThreads) {
      if (comes_before(shared.head.value[i], shared.head.id[i])) ++count;
    }
  } else if (const CountingWarps mine = CountingWarps::of(cluster); mine.warp >= 0) {
    keyed.visit_share(order_key(x), mine.warp, mine.warps, [&](std::int64_t other, float y) {
      if (comes_before(y, other) && reported.row().survives(other, y)) ++count;
    });
  }
  return reduce_block(count, shared.count, Add{});
}

__device__ void write_values(const LogprobsTask& task, std::int64_t output,
                             const ReportedRow& reported) {
  if (!task.result.values.given()) return;
  const std::int32_t* tokens = task.tokens + output * task.num_samples;
  for (int sample = static_cast<int>(threadIdx.x); sample < task.num_samples; sample += kThreads) {
    const float x = reported.row().value(tokens[sample]);
    task.result.values.data[output * task.num_samples + sample] =
        reported.counts(tokens[sample], x) ? reported.value_of(x) : -CUDART_INF_F;
  }
}

/// Writes the ranks of the tokens of an output, with all blocks of the output. `top` has no entries
/// in all blocks except the first.
__device__ void write_ranks(const LogprobsTask& task, std::int64_t output,
                            const ReportedRow& reported, const KeyedRow& keyed,
                            const RowCluster& cluster, const Top& top, Shared& shared) {
  const std::int32_t* tokens = task.tokens + output * task.num_samples;
  std::int32_t* ranks = task.result.ranks.data + output * task.num_samples;
#pragma unroll 1
  for (int begin = 0; begin < task.num_samples; begin += kRanksAtOnce) {
    if (begin > 0) cluster.sync();  // wait until all blocks have read the previous counts
    const int samples = min(task.num_samples - begin, kRanksAtOnce);
#pragma unroll 1
    for (int i = 0; i < samples; ++i) {
      const std::int32_t token = tokens[begin + i];
      const float x = reported.row().value(token);
      if (!reported.counts(token, x)) continue;
      const std::int32_t mine = count_before(task, reported, keyed, cluster, token, x, top, shared);
      if (threadIdx.x == 0) *cluster.at(&shared.counted[i][cluster.rank], 0) = mine;
    }
    cluster.sync();
    if (cluster.rank != 0) continue;
    const auto i = static_cast<int>(threadIdx.x);
    if (i >= samples) continue;
    const std::int32_t token = tokens[begin + i];
    const float x = reported.row().value(token);
    std::int32_t rank = 0;
    if (reported.counts(token, x)) {
      const int counting = top.lists(x) ? 1 : cluster.blocks;
      for (int block = 0; block < counting; ++block) rank += shared.counted[i][block];
    }
    ranks[begin + i] = rank;
  }
}

// --- Outputs -----------------------------------------------------------------------------------

__device__ void write_failure(const LogprobsTask& task, std::int64_t output) {
  const LogprobsResult& result = task.result;
  for (int i = static_cast<int>(threadIdx.x); i < task.num_samples; i += kThreads) {
    const std::int64_t at = output * task.num_samples + i;
    if (result.values.given()) result.values.data[at] = -CUDART_INF_F;
    if (result.ranks.given()) result.ranks.data[at] = 0;
  }
  for (int i = static_cast<int>(threadIdx.x); i < result.top_n; i += kThreads) {
    const std::int64_t at = output * result.top_n + i;
    if (result.top_ids.given()) result.top_ids.data[at] = -1;
    if (result.top_values.given()) result.top_values.data[at] = -CUDART_INF_F;
  }
}

__device__ RowStatus status_of(const LogprobsTask& task, std::int64_t output, std::int64_t number) {
  const RowsView& rows = task.filtered.rows;
  if (number < 0 || number >= rows.rows) return RowStatus::index_out_of_range;
  const RowStatus status = status_of_row(task, number);
  if (status != RowStatus::ok || !task.tokens_are_given) return status;
  int bad = 0;
  for (int i = static_cast<int>(threadIdx.x); i < task.num_samples; i += kThreads) {
    const std::int32_t token = task.tokens[output * task.num_samples + i];
    if (token < 0 || token >= rows.vocab) bad = 1;
  }
  return __syncthreads_or(bad) != 0 ? RowStatus::index_out_of_range : RowStatus::ok;
}

/// Writes the report of an output, with all blocks of the output.
__device__ void write_output(const LogprobsTask& task, std::int64_t output,
                             const RowCluster& cluster, Shared& shared, std::int32_t* keys) {
  const bool is_first = cluster.rank == 0;
  const std::int64_t number = task.indices.given() ? task.indices.data[output] : output;
  const RowStatus status = status_of(task, output, number);
  if (is_first && threadIdx.x == 0 && task.statuses != nullptr) task.statuses[output] = status;
  if (status != RowStatus::ok) {
    if (is_first) write_failure(task, output);
    return;
  }
  if (!task.result.given()) return;  // the rows were not indexed in this case
  const ReportedRow reported(task, number, shared.index);
  const RowIndex index = index_of(task.index, number, task.filtered.rows.vocab);
  if (needs_order(task.result)) {
    for (int tile = static_cast<int>(threadIdx.x); tile < index.tiles; tile += kThreads) {
      keys[tile] = index.keys[tile];
    }
    __syncthreads();
  }
  const KeyedRow keyed{reported.row(), keys, index.tiles};
  Top top = Top::none();
  if (is_first) {
    write_values(task, output, reported);
    top = find_top(task, reported, keyed, shared);
    write_top(task, output, reported, top, shared);
  }
  if (task.result.ranks.given()) {
    write_ranks(task, output, reported, keyed, cluster, top, shared);
  }
}

__global__ void __launch_bounds__(kThreads, 4)
    report_outputs_kernel(const __grid_constant__ LogprobsTask task, int blocks) {
  __shared__ Shared shared;
  extern __shared__ std::int32_t keys[];
  const auto of_output = static_cast<unsigned>(blocks);
  const RowCluster cluster{blocks, static_cast<int>(blockIdx.x % of_output)};
  const std::int64_t step = gridDim.x / of_output;
  cluster.announce();
  cluster.await_all();
#pragma unroll 1
  for (std::int64_t output = blockIdx.x / of_output; output < task.outputs; output += step) {
    write_output(task, output, cluster, shared, keys);
    cluster.sync();  // wait, because entries and counts are read until the last rank is computed
  }
}

/// Returns the number of blocks that share an output. Each warp has at least one tile, and all
/// blocks run at the same time, four on each of about 128 SMs. Larger clusters are harder to
/// schedule, because all blocks of a cluster must run in the same group of SMs.
int blocks_of_output(const LogprobsTask& task, Path path) {
  if (path == Path::block || !task.result.ranks.given()) return 1;
  int blocks = 1;
  const auto at_once = [](int blocks_of_cluster) { return blocks_of_cluster > 2 ? 480 : 512; };
  while (blocks < kMaxBlocks && 2 * blocks * task.outputs <= at_once(2 * blocks) &&
         tiles_of(task.filtered.rows.vocab) >= std::int64_t{2} * blocks * (kThreads / kWarp)) {
    blocks *= 2;
  }
  return blocks;
}

// --- Whole rows --------------------------------------------------------------------------------

/// Returns the number of tiles that a block processes. Long rows are divided into few parts,
/// because each block adds up the whole index.
constexpr std::int64_t tiles_of_part(std::int64_t tiles) {
  constexpr std::int64_t kMin = 16;
  constexpr std::int64_t kMaxParts = 16;
  const std::int64_t share = (tiles + kMaxParts - 1) / kMaxParts;
  return share > kMin ? share : kMin;
}

__global__ void __launch_bounds__(kThreads)
    report_rows_kernel(const __grid_constant__ LogprobsTask task, std::int64_t parts) {
  __shared__ IndexMass::Scratch scratch;
  const std::int64_t number = blockIdx.x / parts;
  const std::int64_t vocab = task.filtered.rows.vocab;
  const std::int64_t length = tiles_of_part(tiles_of(vocab)) * kTileSize;
  const std::int64_t begin = blockIdx.x % parts * length;
  const std::int64_t end = begin + length < vocab ? begin + length : vocab;
  float* values = task.result.all.data + number * task.result.all.row_stride;
  const RowStatus status = status_of_row(task, number);
  if (status == RowStatus::inactive) return;
  if (status != RowStatus::ok) {
    for (std::int64_t token = begin + threadIdx.x; token < end; token += kThreads) {
      values[token] = -CUDART_INF_F;
    }
    return;
  }
  const ReportedRow reported(task, number, scratch);
#pragma unroll 1
  for (std::int64_t first = begin + threadIdx.x; first < end; first += kThreads * kLaneValues) {
    float x[kLaneValues];
    reported.row().read(first, kThreads, x);
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      const std::int64_t token = first + i * kThreads;
      if (token >= end) break;
      values[token] = reported.counts_read(token, x[i]) ? reported.value_of(x[i]) : -CUDART_INF_F;
    }
  }
}

/// Enqueues the outputs. If there are more than 2^20 outputs, each cluster of blocks processes
/// several outputs.
cudaError_t launch_outputs(const LogprobsTask& task, Path path, cudaStream_t stream) {
  constexpr std::int64_t kMax = std::int64_t{1} << 20;
  const std::int64_t tiles = needs_order(task.result) ? tiles_of(task.filtered.rows.vocab) : 0;
  const int blocks = blocks_of_output(task, path);
  const ClusterLaunch launch(task.outputs < kMax ? task.outputs : kMax, blocks, kThreads,
                             static_cast<int>(tiles * std::int64_t{sizeof(std::int32_t)}), stream);
  return cudaLaunchKernelEx(&launch.config, report_outputs_kernel, task, blocks);
}

}  // namespace

cudaError_t report_logprobs(const LogprobsTask& task, Path path, cudaStream_t stream) {
  const LogprobsResult& result = task.result;
  const bool by_output =
      result.values.given() || result.ranks.given() || result.top_n > 0 || task.statuses != nullptr;
  if (by_output && task.outputs > 0) {
    if (const cudaError_t error = launch_outputs(task, path, stream); error != cudaSuccess)
      return error;
  }
  if (!result.all.given() || task.filtered.rows.rows == 0) return cudaSuccess;
  // There are fewer than 2^22 rows of at most 16 parts, so the grid is smaller than the maximum of
  // 2^31 - 1 blocks.
  const std::int64_t tiles = tiles_of(task.filtered.rows.vocab);
  const std::int64_t parts = (tiles + tiles_of_part(tiles) - 1) / tiles_of_part(tiles);
  return launch_clusters(report_rows_kernel, task.filtered.rows.rows * parts, 1, kThreads, stream,
                         task, parts);
}

}  // namespace fairdraw::cuda
