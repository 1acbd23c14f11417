// Kernel that makes the summaries of a shard's rows (row_summariser.cuh). Each row has one block of
// 256 threads.
#include "cuda/device/early_start.h"
#include "cuda/rows/tile_launch.cuh"
#include "cuda/sharded/peer_exchange.cuh"
#include "cuda/sharded/row_summariser.cuh"
#include "cuda/sharded/sharded_task.h"

namespace fairdraw::cuda {
namespace {

template <bool kFromProbs>
__global__ void __launch_bounds__(kEndThreads)
    summarise_rows_kernel(const __grid_constant__ ShardedTask task, int) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  await_kernel_before();
  let_next_kernel_start();
  if (blockIdx.x == 0 && threadIdx.x == 0) write_header(task, ShardedExchange::summary);
  std::byte* part = reinterpret_cast<std::byte*>(dynamic + summary_part_at(task));
  RowSummariser<kFromProbs>(task, blockIdx.x, dynamic, part).run();
  __syncthreads();
  std::byte* to = task.mine(ShardedExchange::summary, blockIdx.x);
  const auto bytes = static_cast<unsigned>(task.each[0]);
#pragma unroll 4
  for (unsigned byte = 4 * threadIdx.x; byte < bytes; byte += 4 * kEndThreads) {
    word_of(to, byte) = word_of(part, byte);
  }
  end_sending(task, ShardedExchange::summary, blockIdx.x, part, summary_bytes_sent(task, part));
}

}  // namespace

cudaError_t summarise_rows(const ShardedTask& task, cudaStream_t stream) {
  const int bytes = summary_bytes(task);
  const SpreadNeeds needs{[bytes](int) { return bytes; }, /*starts_early=*/true};
  const auto launch = [&]<bool kFromProbs>() {
    return launch_spread<summarise_rows_kernel<kFromProbs>>(task.rows(), {1, kEndThreads}, needs,
                                                            stream, task);
  };
  return task.from_probs ? launch.operator()<true>() : launch.operator()<false>();
}

}  // namespace fairdraw::cuda
