// Rows of a draft's probabilities, whose columns lie on several ranks.
//
// Contract. Of such rows nothing is filtered, so that a shard says two things of each: what is
// wrong with its columns, and the largest of them. From these all ranks have the row's status, the
// first in the order of statuses, and its largest value: a record as the row kernel leaves it, of
// this shard's columns. A row has no allowed token where no shard has one.
//
// Algorithm and cost. The row kernel has read the columns; a thread a row packs what it says into 8
// bytes, and one merges those of all shards.
//
// Randomness, numerics: none. Determinism: minima and maxima.
#include <algorithm>

#include "cuda/device/row_launch.h"
#include "cuda/sharded/sharded_chain.h"
#include "cuda/tiles/filtered_row.cuh"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 256;

__device__ std::int64_t first_row() { return std::int64_t{blockIdx.x} * kThreads + threadIdx.x; }
__device__ std::int64_t rows_at_once() { return std::int64_t{gridDim.x} * kThreads; }

__global__ void __launch_bounds__(kThreads)
    send_probability_rows_kernel(const __grid_constant__ ShardedChainTask task) {
  for (std::int64_t row = first_row(); row < task.drafts.draft_rows; row += rows_at_once()) {
    if (task.drafts.of_draft.active[row] == 0) continue;
    ProbabilityPart part{RowStatus::no_allowed_token, 0.0F};
    if (task.draft.rows.vocab > 0) {
      const RowRecord& record = task.draft_records[row];
      part.status = record.status;
      if (record.status == RowStatus::ok) part.max = record.max;
    }
    task.probs.mine<ProbabilityPart>()[row] = part;
  }
}

__global__ void __launch_bounds__(kThreads)
    merge_probability_rows_kernel(const __grid_constant__ ShardedChainTask task) {
  for (std::int64_t row = first_row(); row < task.drafts.draft_rows; row += rows_at_once()) {
    if (task.drafts.of_draft.active[row] == 0) continue;
    constexpr int kLast = 1 << 16;
    int worst = kLast;
    float max = 0.0F;
    for (int shard = 0; shard < task.shards; ++shard) {
      const ProbabilityPart part = task.probs.of<ProbabilityPart>(shard)[row];
      if (part.status == RowStatus::ok) {
        max = fmaxf(max, part.max);
      } else if (part.status != RowStatus::no_allowed_token) {
        worst = ::min(worst, static_cast<int>(part.status));
      }
    }
    RowStatus status = max > 0.0F ? RowStatus::ok : RowStatus::no_allowed_token;
    if (worst < kLast) status = static_cast<RowStatus>(worst);
    const auto columns = static_cast<std::int32_t>(task.draft.rows.vocab);
    task.draft_records[row] = {status, -1, max, kSmallestProbability, columns, 0, 0, 0};
  }
}

cudaError_t launch(void (*kernel)(ShardedChainTask), const ShardedChainTask& task,
                   cudaStream_t stream) {
  const std::int64_t blocks = (task.drafts.draft_rows + kThreads - 1) / kThreads;
  return launch_blocks(kernel, blocks, kThreads, stream, task);
}

}  // namespace

cudaError_t send_probability_rows(const ShardedChainTask& task, cudaStream_t stream) {
  return launch(send_probability_rows_kernel, task, stream);
}

cudaError_t merge_probability_rows(const ShardedChainTask& task, cudaStream_t stream) {
  return launch(merge_probability_rows_kernel, task, stream);
}

}  // namespace fairdraw::cuda
