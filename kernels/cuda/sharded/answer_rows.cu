// Kernel that answers the requests of rows for tokens or sums, for the columns of this shard
// (row_answerer.cuh).
//
// Each row has one block of 256 threads. A row that makes no request ends at once, and its part of
// the exchange block does not change.
#include <cstdint>

#include "cuda/device/early_start.h"
#include "cuda/rows/tile_launch.cuh"
#include "cuda/sharded/peer_exchange.cuh"
#include "cuda/sharded/row_answerer.cuh"
#include "cuda/sharded/sharded_task.h"

namespace fairdraw::cuda {
namespace {

template <bool kFromProbs>
__global__ void __launch_bounds__(kEndThreads)
    answer_rows_kernel(const __grid_constant__ ShardedTask task, ShardedExchange exchange, int) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  await_kernel_before();
  let_next_kernel_start();
  if (blockIdx.x == 0 && threadIdx.x == 0) write_header(task, exchange);
  const bool are_tokens = exchange == ShardedExchange::tokens;
  const bool is_active = !task.active.given() || task.active.data[blockIdx.x] != 0;
  const bool answers =
      is_active && task.states[blockIdx.x].asks == (are_tokens ? RowAsks::tokens : RowAsks::sums);
  if (answers) {
    RowAnswerer<kFromProbs> answerer(task, blockIdx.x, dynamic);
    are_tokens ? answerer.list_tokens() : answerer.sum_above(ReceivedBlocks(task));
  }
  end_sending(task, exchange, blockIdx.x, answers ? task.mine(exchange, blockIdx.x) : nullptr,
              static_cast<std::size_t>(task.each[static_cast<int>(exchange)]));
}

}  // namespace

cudaError_t answer_rows(const ShardedTask& task, ShardedExchange exchange, cudaStream_t stream) {
  const SpreadNeeds needs{[](int) { return static_cast<int>(sizeof(AnswerMemory)); },
                          /*starts_early=*/true};
  const auto launch = [&]<bool kFromProbs>() {
    return launch_spread<answer_rows_kernel<kFromProbs>>(task.rows(), {1, kEndThreads}, needs,
                                                         stream, task, exchange);
  };
  return task.from_probs ? launch.operator()<true>() : launch.operator()<false>();
}

}  // namespace fairdraw::cuda
