// Memory of peers for calls: its layout, its size, and checks.
#pragma once

#include <cstdint>

#include "cuda/sharded/sharded_task.h"
#include "fairdraw/cuda_sharded.h"

namespace fairdraw::cuda {

/// Rounds up to a multiple of 16 bytes, at which blocks of exchanges begin.
constexpr std::int64_t aligned_in_peers(std::int64_t bytes) {
  constexpr std::int64_t kAlignment = 16;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Returns the byte at which blocks begin, after counts and flags. All calls of a memory share it.
std::int64_t end_of_flags(int shards, std::int64_t most_rows);

/// Returns the bytes of a memory with halves of `half` bytes.
std::int64_t bytes_with_halves(std::int64_t flags_end, std::int64_t half);

/// Checks most_rows against the `rows` of the call.
Error check_most_rows(std::int64_t most_rows, std::int64_t rows);

/// Checks the memory of all shards, of which a call needs `needed` bytes, and takes it.
Error take_peers(const ShardedPeers& peers, std::int64_t needed, int shards, PeerBlocks& blocks);

/// Returns an error if no peers have been given.
Error needs_peers(const PeerBlocks& blocks);

}  // namespace fairdraw::cuda
