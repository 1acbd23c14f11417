// Memory of peers as calls use it: where flags end, how much is needed, what is wrong with it.
#pragma once

#include <cstdint>

#include "cuda/sharded/sharded_task.h"
#include "fairdraw/cuda_sharded.h"

namespace fairdraw::cuda {

/// Where blocks of exchanges begin: at multiples of 16 bytes.
constexpr std::int64_t aligned_in_peers(std::int64_t bytes) {
  constexpr std::int64_t kAlignment = 16;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Byte at which blocks begin, behind counts and flags: the same for all calls of a memory.
std::int64_t end_of_flags(int shards, std::int64_t most_rows);

/// Bytes of a memory whose halves have so many.
std::int64_t bytes_with_halves(std::int64_t flags_end, std::int64_t half);

/// `rows` of the call.
Error check_most_rows(std::int64_t most_rows, std::int64_t rows);

/// Checks the memory of all shards, of which a call needs so many bytes, and takes it.
Error take_peers(const ShardedPeers& peers, std::int64_t needed, int shards, PeerBlocks& blocks);

/// Error: no peers have been given.
Error needs_peers(const PeerBlocks& blocks);

}  // namespace fairdraw::cuda
