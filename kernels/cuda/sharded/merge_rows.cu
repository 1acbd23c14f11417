// Kernel that merges the summaries of shards (row_merger.cuh). Each row, or each place of a group
// of gathered rows, has one block of 256 threads.
#include <cstdint>

#include "cuda/device/early_start.h"
#include "cuda/rows/tile_launch.cuh"
#include "cuda/sharded/peer_exchange.cuh"
#include "cuda/sharded/row_merger.cuh"
#include "cuda/sharded/sharded_task.h"

namespace fairdraw::cuda {
namespace {

template <bool kReports, bool kFromProbs>
__global__ void __launch_bounds__(kEndThreads)
    merge_rows_kernel(const __grid_constant__ ShardedTask task, ShardedExchange exchange, int) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  await_kernel_before();
  let_next_kernel_start();
  std::int64_t number = blockIdx.x;
  if (exchange == ShardedExchange::gather) number = task.gathered.numbers[number];
  // This place of the group has no row, because the group has fewer rows than places.
  if (number < 0) return;
  RowMerger<kReports, kFromProbs>(task, ReceivedBlocks(task), exchange, number, dynamic).run();
}

}  // namespace

cudaError_t merge_rows(const ShardedTask& task, ShardedExchange exchange, cudaStream_t stream) {
  const SpreadNeeds needs{[&task](int) { return merge_bytes(task); }, /*starts_early=*/true};
  const std::int64_t blocks =
      exchange == ShardedExchange::gather ? task.gathered.count : task.rows();
  return launch_with_reports(task, [&]<bool kReports, bool kFromProbs>() {
    return launch_spread<merge_rows_kernel<kReports, kFromProbs>>(blocks, {1, kEndThreads}, needs,
                                                                  stream, task, exchange);
  });
}

}  // namespace fairdraw::cuda
