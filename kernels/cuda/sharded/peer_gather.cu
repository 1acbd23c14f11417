// An all-gather through memory that ranks write into each other.
//
// Contract. After send_block on every rank, receive_blocks leaves the blocks of all ranks one after
// the other, in the order of the shards. Ranks make the same gathers, and the same calls of
// peer_exchange.cuh through the same memory, in the same order, with blocks of the same size.
//
// Algorithm and cost. A block is cut into slices, one a thread block of both kernels. A slice is
// copied word by word to all ranks, then its flag is set to the number of the exchange there, with
// a release over the system; who receives it waits for the flags of all shards with an acquire, and
// copies the slices out of its own memory. Two launches, a write over NVLink and its way; all bytes
// are read and written once more than with flags in the kernels that make and read them.
//
// Where blocks lie. In the halves of peer_exchange.cuh: a gather is a call of its own there. So who
// sends has awaited what all ranks sent in the call before, and those kernels of theirs began when
// what they read in the call before that had been read.
//
// Ranks begin slices in the same order and send before they wait; that is two kernels here, so that
// what waits fills no place that sending needs.
//
// Determinism: what is read is what was sent.
#include <algorithm>

#include "cuda/device/row_launch.h"
#include "cuda/sharded/peer_exchange.cuh"
#include "cuda/sharded/peer_gather.h"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 256;
/// Enough that a write over NVLink is under way everywhere, and few enough that all have a place.
constexpr std::int64_t kMostSlices = 64;
constexpr std::int64_t kLeastSlice = 4096;

std::int64_t aligned(std::int64_t bytes) {
  constexpr std::int64_t kAlignment = 16;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// The same on all ranks.
std::int64_t slices_of(const PeerGather& gather) {
  const std::int64_t wanted = (gather.bytes + kLeastSlice - 1) / kLeastSlice;
  return std::min({wanted, kMostSlices, gather.peers.most_rows});
}

/// A shard's block of a gather, in the memory of a rank.
__device__ std::byte* block_of(const PeerGather& gather, int rank, int shard, std::uint64_t call) {
  const std::int64_t each = (gather.bytes + 15) / 16 * 16;
  return gather.peers.memory[rank] + gather.peers.flags_end +
         static_cast<std::int64_t>(call % 2) * gather.peers.half + shard * each;
}

/// The words of a block that are this thread's.
template <class Copy>
__device__ void each_word(const PeerGather& gather, const Copy& copy) {
  const std::int64_t words = gather.bytes / 4;
  const std::int64_t slice = (words + gridDim.x - 1) / gridDim.x;
  const std::int64_t begin = blockIdx.x * slice;
  const std::int64_t end = begin + slice < words ? begin + slice : words;
#pragma unroll 4
  for (std::int64_t word = begin + threadIdx.x; word < end; word += kThreads) {
    copy(static_cast<std::size_t>(4 * word));
  }
}

__global__ void __launch_bounds__(kThreads)
    send_block_kernel(const __grid_constant__ PeerGather gather) {
  auto& counts = *reinterpret_cast<PeerCounts*>(gather.peers.memory[gather.shard]);
  const PeerExchange sent{counts.exchanges + 1, counts.calls + 1};
  __syncthreads();  // all have read the counts
#pragma unroll 1
  for (int rank = 0; rank < gather.shards; ++rank) {
    std::byte* to = block_of(gather, rank, gather.shard, sent.call);
    each_word(gather, [&](std::size_t byte) { word_of(to, byte) = word_of(gather.send, byte); });
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < gather.shards) {
    store_release(peer_flag(gather.peers, gather.shards, PeerFlags::parts,
                            static_cast<int>(threadIdx.x), gather.shard, blockIdx.x),
                  sent.number);
  }
  if (threadIdx.x == 0 && atomicAdd(&counts.ended, 1U) + 1 == gridDim.x) {
    counts.ended = 0;
    counts.exchanges = sent.number;
    counts.calls = sent.call;
  }
}

__global__ void __launch_bounds__(kThreads)
    receive_blocks_kernel(const __grid_constant__ PeerGather gather) {
  const auto& counts = *reinterpret_cast<const PeerCounts*>(gather.peers.memory[gather.shard]);
  const PeerExchange sent{counts.exchanges, counts.calls};
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < gather.shards) {
    await_number(
        peer_flag(gather.peers, gather.shards, PeerFlags::parts, gather.shard, thread, blockIdx.x),
        sent.number);
  }
  __syncthreads();
#pragma unroll 1
  for (int shard = 0; shard < gather.shards; ++shard) {
    const std::byte* from = block_of(gather, gather.shard, shard, sent.call);
    std::byte* to = gather.receive + shard * gather.bytes;
    each_word(gather, [&](std::size_t byte) { word_of(to, byte) = word_of(from, byte); });
  }
}

}  // namespace

std::int64_t bytes_of_half(std::int64_t block_bytes, int shards) {
  return shards * aligned(block_bytes);
}

cudaError_t send_block(const PeerGather& gather, cudaStream_t stream) {
  return launch_clusters(send_block_kernel, slices_of(gather), 1, kThreads, stream, gather);
}

cudaError_t receive_blocks(const PeerGather& gather, cudaStream_t stream) {
  return launch_clusters(receive_blocks_kernel, slices_of(gather), 1, kThreads, stream, gather);
}

}  // namespace fairdraw::cuda
