// The kernel of tokens that rows ask this shard for; row_answerer.cuh says how.
//
// A block of 256 threads a row; rows that do not ask end at once, and their places are left as they
// are.
#include <cstdint>

#include "cuda/device/early_start.h"
#include "cuda/sharded/peer_exchange.cuh"
#include "cuda/sharded/row_answerer.cuh"
#include "cuda/sharded/sharded_task.h"
#include "cuda/tiles/tile_launch.cuh"

namespace fairdraw::cuda {
namespace {

template <bool kFromProbs>
__global__ void __launch_bounds__(kEndThreads)
    answer_rows_kernel(const __grid_constant__ ShardedTask task, int) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  await_kernel_before();
  let_next_kernel_start();
  constexpr ShardedExchange kTokens = ShardedExchange::tokens;
  if (blockIdx.x == 0 && threadIdx.x == 0) write_header(task, kTokens);
  const bool is_active = !task.active.given() || task.active.data[blockIdx.x] != 0;
  const bool answers = is_active && task.states[blockIdx.x].asks == RowAsks::tokens;
  if (answers) RowAnswerer<kFromProbs>(task, blockIdx.x, dynamic).run();
  end_sending(task, kTokens, blockIdx.x, answers ? task.mine(kTokens, blockIdx.x) : nullptr,
              static_cast<std::size_t>(task.each[static_cast<int>(kTokens)]));
}

}  // namespace

cudaError_t answer_rows(const ShardedTask& task, cudaStream_t stream) {
  const SpreadNeeds needs{[](int) { return static_cast<int>(sizeof(AnswerMemory)); },
                          /*starts_early=*/true};
  const auto launch = [&]<bool kFromProbs>() {
    return launch_spread<answer_rows_kernel<kFromProbs>>(task.rows(), {1, kEndThreads}, needs,
                                                         stream, task);
  };
  return task.from_probs ? launch.operator()<true>() : launch.operator()<false>();
}

}  // namespace fairdraw::cuda
