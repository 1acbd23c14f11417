// Blocks that go through memory of all ranks as they are: an all-gather in two kernels.
//
// Private to kernels/cuda. For calls whose kernels know nothing of peers, beside those that do
// (peer_exchange.cuh), in the same memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/sharded/sharded_task.h"

namespace fairdraw::cuda {

/// A rank's block, and where those of all go.
struct PeerGather {
  PeerBlocks peers;  ///< at and each are not read
  int shards, shard;
  const std::byte* send;
  std::byte* receive;  ///< [shards, bytes]
  std::int64_t bytes;  ///< a multiple of 4, at least 4
};

/// Bytes of a half of the memory that blocks of so many bytes take.
std::int64_t bytes_of_half(std::int64_t block_bytes, int shards);
/// Enqueues this rank's part: to all ranks.
cudaError_t send_block(const PeerGather& gather, cudaStream_t stream);
/// Enqueues a wait for the blocks of all ranks, and their copy to `receive`.
cudaError_t receive_blocks(const PeerGather& gather, cudaStream_t stream);

}  // namespace fairdraw::cuda
