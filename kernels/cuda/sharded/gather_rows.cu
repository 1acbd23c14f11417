// Gathers rows whose results do not follow from the shards' candidates: sends the columns of these
// rows to all ranks, and assembles whole rows from the received columns.
//
// Contract. The group of rows in an exchange consists of the first `count` rows that wait to be
// gathered, in the order of their numbers, so that all ranks find the same group. A shard sends its
// columns as the filters see them, with -inf (0 for probabilities) for tokens that are not allowed.
// If reports use the caller's logits, the caller's columns are sent after these columns. A shard
// with fewer columns than others sends zeros for the missing columns. After all columns have
// arrived, the workspace has the whole rows of the group and their parameters. The kernels that
// filter and draw from rows on one GPU then use these rows.
//
// Algorithm and cost. One block finds the group, by one pass over the states of all rows and one
// pass over the outputs. For each row of the group, one block copies the columns, once to send and
// once to assemble them. Each copy moves 4 bytes per column, which is 0.5 MB for a row of 128256
// columns.
//
// Randomness, numerics: none. Determinism: the rows of a group are in the order of their numbers.
#include <cstdint>

#include "cuda/device/block_sums.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/rows/filtered_row.cuh"
#include "cuda/sharded/peer_exchange.cuh"
#include "cuda/sharded/sharded_task.h"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 1024;

/// Finds the rows of the group in an exchange, with one block.
__global__ void __launch_bounds__(kThreads)
    find_group_kernel(const __grid_constant__ ShardedTask task) {
  __shared__ std::int32_t of_warp[kMaxWarps];
  const GatheredRows& group = task.gathered;
  const auto thread = static_cast<std::int64_t>(threadIdx.x);
  for (std::int64_t slot = thread; slot < group.count; slot += kThreads) group.numbers[slot] = -1;
  // The threads of a step take consecutive rows, so the rows of each step follow the rows of the
  // step before.
  std::int32_t before = 0;
  for (std::int64_t first = 0; first < task.rows(); first += kThreads) {
    const std::int64_t row = first + thread;
    const bool waits = row < task.rows() && task.states[row].asks == RowAsks::gather;
    const unsigned lanes = __ballot_sync(kAllLanes, waits);
    if (lane_of_thread() == 0) of_warp[warp_of_thread()] = __popc(lanes);
    __syncthreads();
    std::int32_t slot = before + __popc(lanes & ((1U << lane_of_thread()) - 1U));
    for (int warp = 0; warp < kThreads / kWarp; ++warp) {
      slot += warp < warp_of_thread() ? of_warp[warp] : 0;
      before += of_warp[warp];
    }
    __syncthreads();  // wait until all threads have read the counts
    if (row >= task.rows()) continue;
    const bool is_in = waits && slot < group.count;
    task.states[row].slot = is_in ? slot : -1;
    if (is_in) group.numbers[slot] = static_cast<std::int32_t>(row);
  }
  __syncthreads();  // wait until all threads have written the slots
  const std::int64_t outputs = task.indices.given() ? task.indices.size : task.rows();
  for (std::int64_t output = thread; output < outputs; output += kThreads) {
    const std::int64_t row = task.indices.given() ? task.indices.data[output] : output;
    group.slots[output] = row >= 0 && row < task.rows() ? task.states[row].slot : -1;
  }
}

/// Sends the columns of the group's rows, with one block per row of the group.
__global__ void __launch_bounds__(kThreads)
    send_columns_kernel(const __grid_constant__ ShardedTask task) {
  constexpr ShardedExchange kGather = ShardedExchange::gather;
  const std::int64_t slot = blockIdx.x;
  if (slot == 0 && threadIdx.x == 0) write_header(task, kGather);
  const std::int64_t number = task.gathered.numbers[slot];
  std::byte* part = number < 0 ? nullptr : task.mine(kGather, slot);
  if (part != nullptr) {
    const FilteredRow row = FilteredRow::whole(task.columns, number, task.from_probs);
    const std::uint32_t* allowed =
        task.allowed.given() ? task.allowed.data + number * task.allowed.row_stride : nullptr;
    auto* to = reinterpret_cast<float*>(part);
    const int room = task.gathered.room;
    for (int column = static_cast<int>(threadIdx.x); column < room; column += kThreads) {
      const bool is_there = column < row.vocab;
      const bool is_banned =
          is_there && allowed != nullptr && !FilteredRow::is_set(allowed[column / 32], column);
      to[column] = is_banned ? row.nothing() : is_there ? row.values[column] : 0.0F;
      if (!task.raw.given) continue;
      to[room + column] = is_there ? RowValues::of(task.raw.columns, number)[column] : 0.0F;
    }
  }
  end_sending(task, kGather, slot, part,
              static_cast<std::size_t>(task.each[static_cast<int>(kGather)]));
}

/// Assembles whole rows from the columns of all shards, with one block per row of the group.
__global__ void __launch_bounds__(kThreads)
    make_rows_whole_kernel(const __grid_constant__ ShardedTask task) {
  const GatheredRows& group = task.gathered;
  const std::int64_t slot = blockIdx.x;
  const std::int64_t number = group.numbers[slot];
  if (threadIdx.x == 0) {
    group.active[slot] = number < 0 ? 0 : 1;
    const std::int64_t of = number < 0 ? 0 : number;
    group.temperature[slot] = task.temperature.at(of);
    group.top_k[slot] = task.top_k.at(of);
    group.top_p[slot] = task.top_p.at(of);
    group.min_p[slot] = task.min_p.at(of);
  }
  if (number < 0) return;
  const ReceivedBlocks blocks(task);
  blocks.await(ShardedExchange::gather, slot);
  float* const whole = group.rows.data + slot * group.rows.row_stride;
  for (int shard = 0; shard < task.shards; ++shard) {
    const ShardPart& columns = task.parts[shard];
    const auto* from =
        reinterpret_cast<const float*>(blocks.row(ShardedExchange::gather, shard, slot));
    for (int id = columns.begin + static_cast<int>(threadIdx.x); id < columns.end; id += kThreads) {
      whole[id] = from[id - columns.begin];
    }
  }
}

}  // namespace

cudaError_t send_columns(const ShardedTask& task, cudaStream_t stream) {
  const cudaError_t error = launch_clusters(find_group_kernel, 1, 1, kThreads, stream, task);
  if (error != cudaSuccess) return error;
  return launch_clusters(send_columns_kernel, task.gathered.count, 1, kThreads, stream, task);
}

cudaError_t make_rows_whole(const ShardedTask& task, cudaStream_t stream) {
  return launch_clusters(make_rows_whole_kernel, task.gathered.count, 1, kThreads, stream, task);
}

}  // namespace fairdraw::cuda
