// Exchange blocks that ranks write into each other's memory, and the access of the receiving
// kernels to these blocks.
//
// Contract. A kernel that sends calls end_sending() once for each of its rows, with all threads of
// the row's block. A kernel that receives constructs a ReceivedBlocks first, and then waits for the
// rows that it reads. If a transport outside of the kernels carries the blocks (task.peers is not
// given), both functions do nothing.
//
// Algorithm and cost. The part of a row is copied word by word to the memory of all ranks. Then the
// row's flag in that memory is set to the number of the exchange, by a store with release semantics
// at system scope. The receiver of a row waits for the flags of all shards with acquire loads. So a
// row costs one write over NVLink and the latency of this write, about 2 microseconds, but neither
// another kernel nor a barrier of all rows. The numbers of exchanges only grow, so the flags need
// not be cleared. If a flag is above the awaited number, it belongs to a later exchange, which the
// other rank can reach only after the awaited exchange.
//
// Placement. Calls alternate between two halves of the memory, whatever the shapes of the calls
// are. A rank that sends in a call has received a row from every rank in the previous call, so all
// ranks have finished the call before the previous one, which used the same half. A half has one
// place for the summary and the tokens of a row, but there may be many groups of gathered rows.
// Gathered rows use the flags of the first rows. All ranks await each group before they send the
// next group, so two copies of a group's blocks would suffice. But other exchanges may occur
// between two groups and are counted, too, so there are three copies, which the number of the
// exchange selects.
//
// For rows that are padding, ranks send and await the flag of a summary, but no data. In later
// exchanges, ranks send and await flags only for rows that make requests.
//
// The blocks of a kernel occupy the GPU while they wait for the blocks of other ranks. There is no
// deadlock, because all ranks begin the rows in the same order, and each block sends before it
// waits. So the first row that waits is already being sent by the other rank, or earlier rows of
// the other rank wait only for parts that this rank has already sent.
//
// Tokens and sums that a row requests may be exchanged inside the kernel that merges: the shards
// answer and send, and all of them wait for the answers. Such an exchange takes one kernel
// instead of three or five.
//
// Determinism: receivers read exactly the data that was sent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/sharded/block_words.cuh"
#include "cuda/sharded/row_outputs.cuh"
#include "cuda/sharded/sharded_task.h"

namespace fairdraw::cuda {

/// Kind of a flag: for a part that a kernel sends, or for answers that are exchanged while rows are
/// merged.
enum class PeerFlags { parts, tokens, sums };

/// Returns the address of a flag in the memory of a rank. The flags are an array of the shape [3,
/// shards, max_rows].
__device__ __forceinline__ std::uint64_t* peer_flag(const PeerBlocks& peers, int shards,
                                                    PeerFlags kind, int rank, int shard,
                                                    std::int64_t row) {
  auto* flags = reinterpret_cast<std::uint64_t*>(peers.memory[rank] + sizeof(PeerCounts));
  return flags + (static_cast<int>(kind) * shards + shard) * peers.max_rows + row;
}

/// Identity of an exchange, which consists of its number and the number of its call.
struct PeerExchange {
  std::uint64_t number, call;
};

/// Returns the address of a shard's block among the blocks that a rank receives.
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

/// Copies this rank's answers for the outputs of a row into the block of another rank. The function
/// is out of line, because it is rarely executed.
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

/// Sends the first `bytes` bytes of a row's part to all ranks. In exchanges that have a place for
/// each output, the function sends the parts of the row's outputs instead. The header of the
/// exchange block is sent before the first row's part. Then the function sets the row's flags in
/// the memory of all ranks to the number of the exchange. All threads of the row's block must call
/// this function.
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

/// Sends the first `bytes` bytes of a row's part, which must already be written, to all ranks. All
/// threads of the row's block must call this function, in a launch with one block per row. If
/// `part` is null, no part is sent.
__device__ __forceinline__ PeerExchange end_sending(const ShardedTask& task,
                                                    ShardedExchange exchange, std::int64_t row,
                                                    const std::byte* part, std::size_t bytes) {
  if (!task.peers.given()) return {};
  auto& counts = *reinterpret_cast<PeerCounts*>(task.peers.memory[task.shard]);
  const bool is_summary = exchange == ShardedExchange::summary;
  const PeerExchange sent{counts.exchanges + 1, counts.calls + (is_summary ? 1U : 0U)};
  __syncthreads();  // wait until the part is written and all threads have read the counts
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

/// Access to the blocks received from all shards, for the kernel that reads them.
class ReceivedBlocks {
 public:
  __device__ explicit ReceivedBlocks(const ShardedTask& task) : task_(task) {
    if (!task.peers.given()) return;
    const auto& counts = *reinterpret_cast<const PeerCounts*>(task.peers.memory[task.shard]);
    known_ = {counts.exchanges, counts.calls};
  }

  /// Constructs the access in a kernel that has itself sent the same exchange.
  __device__ ReceivedBlocks(const ShardedTask& task, const PeerExchange& sent)
      : task_(task), known_(sent) {}

  /// Waits until the row's parts from all shards have arrived, in the last exchange that was sent.
  /// For a summary, the function also waits for the header, which arrives with the first row. All
  /// threads must call this function.
  __device__ __forceinline__ void await(ShardedExchange exchange, std::int64_t row) const {
    if (!task_.peers.given()) return;
    const auto shard = static_cast<int>(threadIdx.x);
    if (shard < task_.shards) {
      await_flag(PeerFlags::parts, shard, row);
      if (exchange == ShardedExchange::summary) await_flag(PeerFlags::parts, shard, 0);
    }
    __syncthreads();
  }

  /// Sends this shard's answers for a row, which are tokens or sums, and waits for the answers of
  /// all shards. All threads must call this function.
  __device__ __forceinline__ void exchange_in_merge(ShardedExchange exchange,
                                                    std::int64_t row) const {
    __syncthreads();  // wait until all threads have written the answers
    const PeerFlags kind =
        exchange == ShardedExchange::tokens ? PeerFlags::tokens : PeerFlags::sums;
    send_part(task_, exchange, row, task_.mine(exchange, row),
              static_cast<std::size_t>(task_.each[static_cast<int>(exchange)]), kind, known_);
    const auto shard = static_cast<int>(threadIdx.x);
    if (shard < task_.shards) await_flag(kind, shard, row);
    __syncthreads();
  }

  /// Returns a shard's block. The block of the first shard may be aligned better, but the blocks of
  /// all other shards are aligned only to 4 bytes.
  __device__ __forceinline__ const std::byte* block(ShardedExchange exchange, int shard) const {
    const auto number = static_cast<int>(exchange);
    if (!task_.peers.given()) return task_.receive[number] + shard * task_.bytes[number];
    return peer_block(task_, exchange, task_.shard, shard, known_);
  }
  /// Returns the part of a row in a received block; in exchanges of tokens, sums and ranks, returns
  /// the part of an output.
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
