// Computes the ranks of known tokens: counts, in each shard, the columns that precede a token, and
// adds up the counts of all shards.
//
// Contract. Only rows take part whose tokens are known and have no ranks yet. The kernel counts,
// among this shard's columns, the columns with a larger value than the token's, and the columns
// with the same value whose id is below an end that the rank rule gives. Columns have the form that
// reports use (fairdraw/log_probabilities.h). The rank of a token is the sum of its counts over all
// shards. Rows that do not wait for ranks are left unchanged.
//
// Algorithm and cost. Each row has one block of 256 threads. Tiles whose largest value is below a
// token's value are not read. For a token among the first hundred, about a hundred tiles at most
// are read. All values of cut tiles are compared, each by the shard that has the value's column.
// The shards exchange 4 bytes per token.
//
// Randomness: none. Numerics: values are compared, and nothing is computed from them. Determinism:
// integers.
#include <cstdint>

#include "common/float_order.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/device/early_start.h"
#include "cuda/outputs/row_heads.cuh"
#include "cuda/rows/filtered_row.cuh"
#include "cuda/rows/tile_launch.cuh"
#include "cuda/sharded/peer_exchange.cuh"
#include "cuda/sharded/row_outputs.cuh"
#include "cuda/sharded/sharded_task.h"

namespace fairdraw::cuda {
namespace {

/// Columns of a row in this shard, in the form that reports use.
class CountedRow {
 public:
  __device__ CountedRow(const ShardedTask& task, std::int64_t number)
      : task_(task),
        place_(task.parts[task.shard]),
        columns_(FilteredRow::whole(task.raw.given ? task.raw.columns : task.columns, number,
                                    /*from_probs=*/false)),
        whole_(FilteredRow::whole(task.raw.given ? task.raw.whole : task.whole, number,
                                  /*from_probs=*/false)),
        keys_(task.raw.given ? task.raw.keys.data + number * task.raw.keys.row_stride
                             : task.keys.data + number * task.keys.row_stride) {
    if (task.raw.given || !task.allowed.given()) return;
    columns_.allowed = task.allowed.data + number * task.allowed.row_stride;
    whole_.allowed = task.whole_allowed.data + number * task.whole_allowed.row_stride;
  }

  /// Returns the number of this thread's columns with a value above x, or with a value equal to x
  /// and an id below `end`.
  __device__ int count(float x, int end) const {
    int in_front = 0;
    const auto see = [&](int id, float value) {
      in_front += value > x || (value == x && id < end) ? 1 : 0;
    };
    if (place_.whole() > 0) {
      const KeyedRow keyed{whole_, keys_, task_.tiles()};
      keyed.visit_from(order_key(x), [&](std::int64_t id, float value) {
        see(place_.whole_begin + static_cast<int>(id), value);
      });
    }
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < place_.cut_values(); i += kEndThreads) {
      const int column = place_.cut_column(i);
      const float value = columns_.values[column];
      if (columns_.is_allowed(column, value)) see(place_.begin + column, value);
    }
    return in_front;
  }

 private:
  const ShardedTask& task_;
  const ShardPart& place_;
  FilteredRow columns_, whole_;
  const std::int32_t* keys_;
};

/// Returns the id below which a column that has the same value as a token counts for the token's
/// rank.
__device__ int end_of_equals(const ShardedTask& task, const ShardedRowState& state,
                             const ShardedToken& token) {
  if (task.rank_rule == RankRule::position) return token.id + 1;
  const bool is_cut =
      !is_raw(task.mode) && order_key(std::bit_cast<float>(token.bits)) == state.low;
  return is_cut ? state.tie_end : task.vocab;
}

__device__ bool awaits_ranks(const ShardedTask& task, std::int64_t row) {
  return task.states[row].awaits_ranks;
}

__global__ void __launch_bounds__(kEndThreads)
    count_in_front_kernel(const __grid_constant__ ShardedTask task, int) {
  __shared__ BlockScratch<std::int32_t> scratch;
  await_kernel_before();
  let_next_kernel_start();
  const std::int64_t row = blockIdx.x;
  if (row == 0 && threadIdx.x == 0) write_header(task, ShardedExchange::ranks);
  const bool counts = awaits_ranks(task, row);
  if (counts) {
    const CountedRow counted(task, row);
    const RowOutputs outputs(task, row);
    std::byte* part = task.mine(ShardedExchange::ranks, 0);
#pragma unroll 1
    for (int t = 0; t < outputs.tokens(); ++t) {
      const std::int64_t at = outputs.at(t);
      const ShardedToken& token = task.drawn[at];
      const float x = std::bit_cast<float>(task.raw.given ? token.raw_bits : token.bits);
      const int mine = counted.count(x, end_of_equals(task, task.states[row], token));
      const int all = reduce_block(mine, scratch, Add{});
      if (threadIdx.x == 0) {
        word_of(part, 4 * static_cast<std::size_t>(at)) = static_cast<std::uint32_t>(all);
      }
    }
  }
  end_sending(task, ShardedExchange::ranks, row,
              counts ? task.mine(ShardedExchange::ranks, row) : nullptr,
              4 * static_cast<std::size_t>(task.num_samples));
}

__global__ void __launch_bounds__(kEndThreads)
    sum_ranks_kernel(const __grid_constant__ ShardedTask task, int) {
  await_kernel_before();
  let_next_kernel_start();
  const std::int64_t row = blockIdx.x;
  if (!awaits_ranks(task, row)) return;
  const ReceivedBlocks blocks(task);
  blocks.await(ShardedExchange::ranks, row);
  const RowOutputs outputs(task, row);
  for (int t = static_cast<int>(threadIdx.x); t < outputs.tokens(); t += kEndThreads) {
    const std::int64_t at = outputs.at(t);
    std::uint32_t rank = 0;
    for (int shard = 0; shard < task.shards; ++shard) {
      rank +=
          word_of(blocks.row(ShardedExchange::ranks, shard, 0), 4 * static_cast<std::size_t>(at));
    }
    task.ranks[at] = static_cast<std::int32_t>(rank);
  }
  __syncthreads();  // wait until all threads have read that the row waits
  if (threadIdx.x == 0) task.states[row].awaits_ranks = false;
}

template <auto kKernel>
cudaError_t launch(const ShardedTask& task, cudaStream_t stream) {
  const SpreadNeeds needs{[](int) { return 0; }, /*starts_early=*/true};
  return launch_spread<kKernel>(task.rows(), {1, kEndThreads}, needs, stream, task);
}

}  // namespace

cudaError_t count_in_front(const ShardedTask& task, cudaStream_t stream) {
  return launch<count_in_front_kernel>(task, stream);
}

cudaError_t sum_ranks(const ShardedTask& task, cudaStream_t stream) {
  return launch<sum_ranks_kernel>(task, stream);
}

}  // namespace fairdraw::cuda
