// Blocks that ranks write into each other's memory, and where a kernel finds those that came.
//
// Contract. A kernel that sends calls end_sending() once for each of its rows, by all threads of
// the row's block; one that receives begins with ReceivedBlocks, and waits for the rows that it
// reads. Where a transport carries the blocks (task.peers is not given) neither does anything.
//
// Algorithm and cost. A row's part is copied word by word to all ranks, then its flag is set to the
// number of the exchange there, with a release over the system; who receives the row waits for the
// flags of all shards with an acquire. So a row costs a write over NVLink and its way, about 2
// microseconds, and neither a kernel nor a barrier of all rows. Numbers of exchanges only grow, so
// that nothing has to be cleared; a flag that is further on than what is waited for is of a later
// exchange, for which the other rank needed this one.
//
// Where blocks lie. Each of two halves of the memory has the blocks of every other call, whatever
// their shapes: who sends in a call has awaited a row of every rank in the call before, so that all
// ranks are at the end of the one before that. In a half a row has a summary and tokens once, but
// groups of gathered rows may be many, whose rows have the flags of the first ones: each group is
// awaited before the next is sent, so two copies would do; exchanges of ranks may lie between two,
// and are counted too, so there are three copies, by number.
//
// Rows that are padding send and await the flag of a summary; of later exchanges only rows that ask
// do.
//
// Blocks wait for other ranks' blocks while they hold their place on the GPU. Ranks begin rows in
// the same order, and a block sends before it waits: so the first row that waits is being sent, or
// the other rank's earlier rows wait for nothing that this one has not sent.
//
// Tokens and sums that a row asks for may be exchanged in the merge itself: shards answer, send,
// and all wait for it. That is one kernel in place of three or five.
//
// Determinism: what is read is what was sent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/sharded/block_words.cuh"
#include "cuda/sharded/row_outputs.cuh"
#include "cuda/sharded/sharded_task.h"

namespace fairdraw::cuda {

/// Flags are of parts that a kernel sends, or of what is exchanged while rows are merged.
enum class PeerFlags { parts, tokens, sums };

/// The flags of a rank's memory: [3, shards, most_rows].
__device__ __forceinline__ std::uint64_t* peer_flag(const PeerBlocks& peers, int shards,
                                                    PeerFlags kind, int rank, int shard,
                                                    std::int64_t row) {
  auto* flags = reinterpret_cast<std::uint64_t*>(peers.memory[rank] + sizeof(PeerCounts));
  return flags + (static_cast<int>(kind) * shards + shard) * peers.most_rows + row;
}

/// What an exchange is known by: its number, and that of its call.
struct PeerExchange {
  std::uint64_t number, call;
};

/// A block's place among those that a rank receives.
__device__ __forceinline__ std::byte* peer_block(const ShardedTask& task, ShardedExchange kind,
                                                 int rank, int shard,
                                                 const PeerExchange& exchange) {
  const PeerBlocks& peers = task.peers;
  const auto copy = static_cast<std::int64_t>(
      kind == ShardedExchange::gather ? exchange.number % kGatherCopies : 0);
  const std::int64_t in_half = peers.at[static_cast<int>(kind)] +
                               (copy * task.shards + shard) * peers.each[static_cast<int>(kind)];
  return peers.memory[rank] + peers.flags_end +
         static_cast<std::int64_t>(exchange.call % 2) * peers.half + in_half;
}

__device__ __forceinline__ void store_release(std::uint64_t* at, std::uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
__device__ __forceinline__ std::uint64_t load_acquire(const std::uint64_t* at) {
  std::uint64_t value = 0;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}
__device__ __forceinline__ void await_number(const std::uint64_t* flag, std::uint64_t number) {
  while (load_acquire(flag) < number) {
  }
}

/// What this rank says of a row's outputs, into a block of another. Rarely used, so that its code
/// is elsewhere.
__device__ __noinline__ inline void send_outputs(const ShardedTask& task, ShardedExchange exchange,
                                                 std::int64_t row, std::byte* block) {
  const RowOutputs outputs(task, row);
  const auto each = static_cast<std::size_t>(task.each[static_cast<int>(exchange)]);
  for (int i = 0; i < outputs.count(); ++i) {
    const std::int64_t output = outputs.output(i);
    const std::byte* from = task.mine(exchange, output);
    std::byte* to = block + sizeof(sharded::BlockHeader) + static_cast<std::size_t>(output) * each;
    for (std::size_t byte = 4 * std::size_t{threadIdx.x}; byte < each;
         byte += 4 * std::size_t{blockDim.x}) {
      word_of(to, byte) = word_of(from, byte);
    }
  }
}

/// By all threads of a row's block: the first `bytes` of its part go to all ranks, or, of exchanges
/// that have a place for each output, those of the row's; with the header of `send` in front of the
/// first row's, and the row's flags are set to the exchange's number.
__device__ __forceinline__ void send_part(const ShardedTask& task, ShardedExchange exchange,
                                          std::int64_t row, const std::byte* part,
                                          std::size_t bytes, PeerFlags kind,
                                          const PeerExchange& known) {
  constexpr std::size_t kHeader = sizeof(sharded::BlockHeader);
  const auto thread = static_cast<std::size_t>(threadIdx.x);
  const auto of_row = static_cast<std::size_t>(task.each[static_cast<int>(exchange)]);
#pragma unroll 1
  for (int rank = 0; rank < task.shards; ++rank) {
    std::byte* block = peer_block(task, exchange, rank, task.shard, known);
    if (task.output_begins != nullptr && ShardedTask::is_of_outputs(exchange)) {
      send_outputs(task, exchange, row, block);
    } else {
      std::byte* to = block + kHeader + static_cast<std::size_t>(row) * of_row;
#pragma unroll 4
      for (std::size_t byte = 4 * thread; byte < bytes; byte += 4 * std::size_t{blockDim.x}) {
        word_of(to, byte) = word_of(part, byte);
      }
    }
    if (row == 0 && kind == PeerFlags::parts && thread < kHeader / 4) {
      word_of(block, 4 * thread) = word_of(task.send[static_cast<int>(exchange)], 4 * thread);
    }
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < task.shards) {
    store_release(
        peer_flag(task.peers, task.shards, kind, static_cast<int>(threadIdx.x), task.shard, row),
        known.number);
  }
}

/// By all threads of a row's block, of a launch with a block for each row: its part has been
/// written, and the first `bytes` of it go to all ranks. null: there is none.
__device__ __forceinline__ PeerExchange end_sending(const ShardedTask& task,
                                                    ShardedExchange exchange, std::int64_t row,
                                                    const std::byte* part, std::size_t bytes) {
  if (!task.peers.given()) return {};
  auto& counts = *reinterpret_cast<PeerCounts*>(task.peers.memory[task.shard]);
  const bool is_summary = exchange == ShardedExchange::summary;
  const PeerExchange sent{counts.exchanges + 1, counts.calls + (is_summary ? 1U : 0U)};
  __syncthreads();  // the part is there, and all have read the counts
  if (part != nullptr) {
    send_part(task, exchange, row, part, bytes, PeerFlags::parts, sent);
  }
  if (threadIdx.x == 0 && atomicAdd(&counts.ended, 1U) + 1 == gridDim.x) {
    counts.ended = 0;
    counts.exchanges = sent.number;
    counts.calls = sent.call;
  }
  return sent;
}

/// The blocks that a receiving kernel reads.
class ReceivedBlocks {
 public:
  __device__ explicit ReceivedBlocks(const ShardedTask& task) : task_(task) {
    if (!task.peers.given()) return;
    const auto& counts = *reinterpret_cast<const PeerCounts*>(task.peers.memory[task.shard]);
    known_ = {counts.exchanges, counts.calls};
  }

  /// In a kernel that has sent the exchange itself.
  __device__ ReceivedBlocks(const ShardedTask& task, const PeerExchange& sent)
      : task_(task), known_(sent) {}

  /// Until the row's part of the last exchange that was sent has come from all shards; of a summary
  /// the header too, which comes with the first row. By all threads.
  __device__ __forceinline__ void await(ShardedExchange exchange, std::int64_t row) const {
    if (!task_.peers.given()) return;
    const auto shard = static_cast<int>(threadIdx.x);
    if (shard < task_.shards) {
      await_flag(PeerFlags::parts, shard, row);
      if (exchange == ShardedExchange::summary) await_flag(PeerFlags::parts, shard, 0);
    }
    __syncthreads();
  }

  /// Sends the row's answers, and waits for those of all shards, of tokens or of sums. By all
  /// threads.
  __device__ __forceinline__ void exchange_in_merge(ShardedExchange exchange,
                                                    std::int64_t row) const {
    __syncthreads();  // the answers are there
    const PeerFlags kind =
        exchange == ShardedExchange::tokens ? PeerFlags::tokens : PeerFlags::sums;
    send_part(task_, exchange, row, task_.mine(exchange, row),
              static_cast<std::size_t>(task_.each[static_cast<int>(exchange)]), kind, known_);
    const auto shard = static_cast<int>(threadIdx.x);
    if (shard < task_.shards) await_flag(kind, shard, row);
    __syncthreads();
  }

  /// A shard's block. Those of later shards begin at a multiple of 4 bytes and no more.
  __device__ __forceinline__ const std::byte* block(ShardedExchange exchange, int shard) const {
    const auto number = static_cast<int>(exchange);
    if (!task_.peers.given()) return task_.receive[number] + shard * task_.bytes[number];
    return peer_block(task_, exchange, task_.shard, shard, known_);
  }
  /// A row's part of it; of tokens and ranks, an output's.
  __device__ __forceinline__ const std::byte* row(ShardedExchange exchange, int shard,
                                                  std::int64_t row) const {
    return block(exchange, shard) + sizeof(sharded::BlockHeader) +
           row * task_.each[static_cast<int>(exchange)];
  }

 private:
  __device__ void await_flag(PeerFlags kind, int shard, std::int64_t row) const {
    await_number(peer_flag(task_.peers, task_.shards, kind, task_.shard, shard, row),
                 known_.number);
  }

  const ShardedTask& task_;
  PeerExchange known_{};
};

}  // namespace fairdraw::cuda
