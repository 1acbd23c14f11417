// Log-probabilities of tokens, their ranks, the n largest, whole rows
// (fairdraw/log_probabilities.h).
//
// Contract. The reports of a call whose rows are filtered and whose tokens are drawn, or given. An
// index or a given token out of its range fails its output alone.
//
// Semantics. Values and their order are those of the header; a row is a set of tokens that have a
// value (raw modes: all above -inf; processed ones: the survivors of the filters) and a normaliser.
//
// Algorithm and cost. The n largest come from the row kernel, which sorts the survivors of a short
// list anyway, and notes them (RowHeads): a row under top_k, or with a narrow nucleus, costs no
// more than reading 8 n bytes here. Where they were not noted the row kernel is launched once more
// before this one, over those rows alone, with a top_k of n that cuts ties: other rows leave at
// once. Should that set not be noted either (many ties, a long list) its at most n members are
// collected here by one pass over the row and sorted by counting.
//   outputs   a block an output. A token among the noted ones has its rank from its place; for
//             others one pass counts what comes before them.
//   all       a tile of the row a block: one read and one write a value.
// Raw modes take the second launch for every row: nothing that the filters found is of use.
//
// Numerics. In double, from integer masses: (x - max) / T - log(W / 2^40), rounded once to float32.
// Ranks and order are of the logits, exact.
// Determinism. Counts and places are integers; whatever order threads collect in, the sort is by
// value and id.
#include <math_constants.h>

#include <cfloat>
#include <cstdint>

#include "cuda/device/block_sums.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/outputs/row_heads.cuh"
#include "cuda/outputs/row_logprobs.h"
#include "cuda/row_filter/filtered_row.cuh"

namespace fairdraw::cuda {
namespace {

/// Many, for the sake of passes over a row: one block has to keep enough loads in flight.
constexpr int kThreads = 1024;
constexpr std::int64_t kTile = 4096;  // values of a whole row a block

// --- One row -----------------------------------------------------------------------------------

/// The tokens of a row that have a value, and what it is.
class ReportedRow {
 public:
  /// A row whose status is ok.
  __device__ static ReportedRow of(const LogprobsTask& task, std::int64_t number) {
    ReportedRow result;
    const LogprobsMode mode = task.result.mode;
    result.is_logprob_ = is_logprobs(mode);
    if (is_raw(mode)) {
      const RowRecord& whole = task.tops[number];
      result.row_ = {};
      result.row_.values = RowValues::of(task.filtered.rows, number);
      result.row_.vocab = task.filtered.rows.vocab;
      result.row_.smallest = -FLT_MAX;
      result.row_.low = -FLT_MAX;
      result.row_.tie_end = task.filtered.rows.vocab;
      result.row_.greedy_token = -1;
      result.max_ = whole.max;
      if (result.is_logprob_) result.log_mass_ = log_mass_of(whole.total);
      return result;
    }
    const RowRecord& record = task.filtered.records[number];
    const float temperature = task.filtered.temperature.at(number);
    result.row_ = FilteredRow::of(task.filtered, number);
    result.max_ = record.max;
    result.divisor_ = temperature == 0.0F ? 1.0F : temperature;
    const bool greedy = record.greedy_token >= 0;
    if (result.is_logprob_ && !greedy) result.log_mass_ = log_mass_of(record.total);
    return result;
  }

  __device__ const FilteredRow& row() const { return row_; }
  __device__ bool counts(std::int64_t token, float x) const { return row_.keeps(token, x); }

  /// Of a token that counts.
  __device__ float value_of(float x) const {
    if (!is_logprob_) {
      // 1 divides exactly: raw logits, and those of greedy rows, stay what they are.
      return fmaxf(-FLT_MAX, fminf(FLT_MAX, __fdiv_rn(x, divisor_)));
    }
    const double value = log_probability(x, max_, divisor_, log_mass_);
    // -inf is kept for what has no value.
    return static_cast<float>(fmax(-static_cast<double>(FLT_MAX), fmin(0.0, value)));
  }

 private:
  FilteredRow row_;
  float max_ = 0, divisor_ = 1.0F;
  double log_mass_ = 0;
  bool is_logprob_ = false;
};

// --- The largest -------------------------------------------------------------------------------

/// What a block knows of a row's order.
struct Top {
  int n;         ///< entries in shared memory
  bool has_all;  ///< no other token has a value
};

/// Shared memory of a block.
struct Shared {
  HeadEntries head;
  BlockScratch<std::int32_t> count;
};

/// Puts the first entries of the row's order into shared memory: at least top_n, or all there are.
__device__ Top find_top(const LogprobsTask& task, std::int64_t number, const ReportedRow& reported,
                        Shared& shared) {
  const auto thread = static_cast<int>(threadIdx.x);
  const RowRecord& record = task.filtered.records[number];
  if (!is_raw(task.result.mode) && record.greedy_token >= 0) {
    if (thread == 0) {
      shared.head.value[0] = record.max;
      shared.head.id[0] = record.greedy_token;
    }
    __syncthreads();
    return {1, true};
  }
  bool of_top = is_raw(task.result.mode);
  int n = task.heads.given() ? task.heads.counts[number] : RowHeads::kNotNoted;
  if (n == RowHeads::kNotNoted) {
    of_top = true;
    if (task.result.top_n == 0) return {0, false};
    FilteredRow set = reported.row();
    set.low = task.tops[number].low;
    set.tie_end = task.tops[number].tie_end;
    n = collect_head<kThreads>(set, shared.head);
  } else {
    of_top = of_top || n >= RowHeads::kOfTop;
    n %= RowHeads::kOfTop;
    load_head(task.heads, number, n, shared.head);
  }
  // A set of the largest may hold what the filters drop; what they keep comes first.
  const int kept = __syncthreads_count(
      thread < n && reported.counts(shared.head.id[thread], shared.head.value[thread]) ? 1 : 0);
  return {kept, !of_top || kept < n};
}

__device__ void write_top(const LogprobsTask& task, std::int64_t output,
                          const ReportedRow& reported, int n, const Shared& shared) {
  const auto i = static_cast<int>(threadIdx.x);
  if (i >= task.result.top_n) return;
  const std::int64_t at = output * task.result.top_n + i;
  if (task.result.top_ids.given()) task.result.top_ids.data[at] = i < n ? shared.head.id[i] : -1;
  if (task.result.top_values.given()) {
    task.result.top_values.data[at] =
        i < n ? reported.value_of(shared.head.value[i]) : -CUDART_INF_F;
  }
}

// --- Tokens ------------------------------------------------------------------------------------

/// The rank of a token that counts, for all threads. n: entries in shared memory.
__device__ std::int32_t rank_of(const LogprobsTask& task, const ReportedRow& reported,
                                std::int32_t token, float x, const Top& top, Shared& shared) {
  const auto thread = static_cast<int>(threadIdx.x);
  const bool at_least = task.result.rank_rule == RankRule::at_least;
  const auto comes_before = [&](float y, std::int64_t other) {
    return y > x || (y == x && (at_least || other <= token));
  };
  const bool listed = thread < top.n;
  const int before = __syncthreads_count(
      listed && comes_before(shared.head.value[thread], shared.head.id[thread]) ? 1 : 0);
  const bool in_list = __syncthreads_or(listed && shared.head.id[thread] == token ? 1 : 0) != 0;
  // After the last entry there may be more of its value.
  if (in_list && (!at_least || top.has_all || x > shared.head.value[top.n - 1])) return before;
  std::int32_t count = 0;
  visit_from<kThreads>(reported.row(), x, [&](std::int64_t other, float y) {
    if (comes_before(y, other) && reported.counts(other, y)) ++count;
  });
  return reduce_block(count, shared.count, Add{});
}

__device__ void write_tokens(const LogprobsTask& task, std::int64_t output,
                             const ReportedRow& reported, const Top& top, Shared& shared) {
  const std::int32_t* tokens = task.tokens + output * task.num_samples;
  if (task.result.values.given()) {
    for (int sample = static_cast<int>(threadIdx.x); sample < task.num_samples;
         sample += kThreads) {
      const float x = reported.row().value(tokens[sample]);
      task.result.values.data[output * task.num_samples + sample] =
          reported.counts(tokens[sample], x) ? reported.value_of(x) : -CUDART_INF_F;
    }
  }
  if (!task.result.ranks.given()) return;
  for (int sample = 0; sample < task.num_samples; ++sample) {
    const std::int32_t token = tokens[sample];
    const float x = reported.row().value(token);
    const bool counts = reported.counts(token, x);
    const std::int32_t rank = counts ? rank_of(task, reported, token, x, top, shared) : 0;
    if (threadIdx.x == 0) {
      task.result.ranks.data[output * task.num_samples + sample] = rank;
    }
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
  const RowStatus status = task.filtered.records[number].status;
  if (status != RowStatus::ok || !task.tokens_are_given) return status;
  int bad = 0;
  for (int i = static_cast<int>(threadIdx.x); i < task.num_samples; i += kThreads) {
    const std::int32_t token = task.tokens[output * task.num_samples + i];
    if (token < 0 || token >= rows.vocab) bad = 1;
  }
  return __syncthreads_or(bad) != 0 ? RowStatus::index_out_of_range : RowStatus::ok;
}

__device__ void write_output(const LogprobsTask& task, std::int64_t output, Shared& shared) {
  const std::int64_t number = task.indices.given() ? task.indices.data[output] : output;
  const RowStatus status = status_of(task, output, number);
  if (threadIdx.x == 0 && task.statuses != nullptr) task.statuses[output] = status;
  if (status != RowStatus::ok) {
    write_failure(task, output);
    return;
  }
  const ReportedRow reported = ReportedRow::of(task, number);
  const Top top = find_top(task, number, reported, shared);
  write_top(task, output, reported, top.n, shared);
  if (task.result.values.given() || task.result.ranks.given()) {
    write_tokens(task, output, reported, top, shared);
  }
}

__global__ void __launch_bounds__(kThreads)
    report_outputs_kernel(const __grid_constant__ LogprobsTask task) {
  __shared__ Shared shared;
  for (std::int64_t output = blockIdx.x; output < task.outputs; output += gridDim.x) {
    write_output(task, output, shared);
    __syncthreads();  // the entries are read until the last rank is known
  }
}

// --- Whole rows --------------------------------------------------------------------------------

__global__ void __launch_bounds__(kThreads)
    report_rows_kernel(const __grid_constant__ LogprobsTask task, std::int64_t tiles) {
  const std::int64_t number = blockIdx.x / tiles;
  const std::int64_t begin = blockIdx.x % tiles * kTile;
  const std::int64_t vocab = task.filtered.rows.vocab;
  const std::int64_t end = begin + kTile < vocab ? begin + kTile : vocab;
  float* values = task.result.all.data + number * task.result.all.row_stride;
  const RowStatus status = task.filtered.records[number].status;
  if (status == RowStatus::inactive) return;
  if (status != RowStatus::ok) {
    for (std::int64_t token = begin + threadIdx.x; token < end; token += kThreads) {
      values[token] = -CUDART_INF_F;
    }
    return;
  }
  const ReportedRow reported = ReportedRow::of(task, number);
#pragma unroll 4
  for (std::int64_t token = begin + threadIdx.x; token < end; token += kThreads) {
    const float x = reported.row().value(token);
    values[token] = reported.counts(token, x) ? reported.value_of(x) : -CUDART_INF_F;
  }
}

}  // namespace

cudaError_t report_logprobs(const LogprobsTask& task, cudaStream_t stream) {
  const LogprobsResult& result = task.result;
  const bool by_output =
      result.values.given() || result.ranks.given() || result.top_n > 0 || task.statuses != nullptr;
  if (by_output && task.outputs > 0) {
    const cudaError_t error =
        launch_blocks(report_outputs_kernel, task.outputs, kThreads, stream, task);
    if (error != cudaSuccess) return error;
  }
  if (!result.all.given() || task.filtered.rows.rows == 0) return cudaSuccess;
  // Less than 2^22 rows of at most 256 tiles: below the largest grid, 2^31 - 1.
  const std::int64_t tiles = (task.filtered.rows.vocab + kTile - 1) / kTile;
  return launch_clusters(report_rows_kernel, task.filtered.rows.rows * tiles, 1, kThreads, stream,
                         task, tiles);
}

}  // namespace fairdraw::cuda
