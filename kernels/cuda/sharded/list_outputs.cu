// Lists the outputs that name each row, in calls with row indices.
//
// Contract. The outputs of a row are consecutive in the list, in any order (row_outputs.cuh). An
// output whose row index is out of range gets a failure from this kernel, and does not affect other
// outputs.
//
// Algorithm and cost. A single block counts the outputs of each row, adds the counts up to the
// position at which each row's list begins, and writes the outputs to the lists. The kernel makes
// three passes over the rows or the outputs, with a few of them per thread. For thousands of rows
// and outputs, the kernel takes a few microseconds.
//
// Randomness, numerics: none. Determinism: the order of a list depends on the order of threads, but
// no result of the call depends on the order of a list.
#include <math_constants.h>

#include <cstdint>

#include "cuda/device/block_sums.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/sharded/sharded_task.h"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 1024;

/// Writes the results of an output that fails. A single thread must call this function.
__device__ void fail_output(const ShardedTask& task, std::int64_t output, RowStatus status) {
  if (task.statuses != nullptr) task.statuses[output] = status;
  if (task.support_size != nullptr) task.support_size[output] = 0;
  for (int sample = 0; sample < task.num_samples; ++sample) {
    const std::int64_t at = output * task.num_samples + sample;
    task.tokens[at] = -1;
    if (task.logprob != nullptr) task.logprob[at] = -CUDART_INF_F;
    if (task.logprob_filtered != nullptr) task.logprob_filtered[at] = -CUDART_INF_F;
    if (task.values != nullptr) task.values[at] = -CUDART_INF_F;
    if (task.ranks != nullptr) task.ranks[at] = 0;
  }
  for (int i = 0; i < task.top_n; ++i) {
    const std::int64_t at = output * task.top_n + i;
    if (task.top_ids != nullptr) task.top_ids[at] = -1;
    if (task.top_values != nullptr) task.top_values[at] = -CUDART_INF_F;
  }
}

/// Lists the outputs of rows. The value begins[r] is first the number of the row's outputs, then
/// the start of the row's list, then the next free position in the list, and in the end the end of
/// the list. So at the end of the kernel, all values move by one row.
__global__ void __launch_bounds__(kThreads)
    list_outputs_kernel(const __grid_constant__ ShardedTask task) {
  __shared__ BlockScratch<std::int32_t> scratch;
  __shared__ std::int32_t of_thread[kThreads];
  const auto thread = static_cast<std::int64_t>(threadIdx.x);
  const std::int64_t rows = task.rows();
  std::int32_t* const begins = task.output_begins;
  for (std::int64_t row = thread; row <= rows; row += kThreads) begins[row] = 0;
  __syncthreads();
  for (std::int64_t i = thread; i < task.indices.size; i += kThreads) {
    const std::int32_t row = task.indices.data[i];
    if (row >= 0 && row < rows) {
      atomicAdd(&begins[row], 1);
    } else {
      fail_output(task, i, RowStatus::index_out_of_range);
    }
  }
  __syncthreads();
  // Each thread processes several consecutive rows.
  const std::int64_t share = (rows + kThreads - 1) / kThreads;
  const std::int64_t first = thread * share < rows ? thread * share : rows;
  const std::int64_t end = first + share < rows ? first + share : rows;
  std::int32_t mine = 0;
  for (std::int64_t row = first; row < end; ++row) mine += begins[row];
  of_thread[threadIdx.x] = mine;
  __syncthreads();
  std::int32_t before = 0;
  for (int other = 0; other < static_cast<int>(threadIdx.x); ++other) before += of_thread[other];
  for (std::int64_t row = first; row < end; ++row) {
    const std::int32_t count = begins[row];
    begins[row] = before;
    before += count;
  }
  const std::int32_t listed = reduce_block(mine, scratch, Add{});
  __syncthreads();
  for (std::int64_t i = thread; i < task.indices.size; i += kThreads) {
    const std::int32_t row = task.indices.data[i];
    if (row < 0 || row >= rows) continue;
    task.outputs_by_row[atomicAdd(&begins[row], 1)] = static_cast<std::int32_t>(i);
  }
  __syncthreads();
  // Moves the ends of the lists by one row, because the end of each list is the start of the next.
  // All threads must read before any thread writes.
  const std::int32_t at_first = first == 0 ? 0 : begins[first - 1];
  __syncthreads();
  for (std::int64_t row = end - 1; row > first; --row) begins[row] = begins[row - 1];
  if (first < end) begins[first] = at_first;
  if (threadIdx.x == 0) begins[rows] = listed;
}

}  // namespace

cudaError_t list_outputs(const ShardedTask& task, cudaStream_t stream) {
  return launch_clusters(list_outputs_kernel, 1, 1, kThreads, stream, task);
}

}  // namespace fairdraw::cuda
