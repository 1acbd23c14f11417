// Peer memory of sharded calls: its layout, its size, and its checks.
#pragma once

#include <cstdint>

#include "cuda/sharded/sharded_task.h"
#include "fairdraw/cuda_sharded.h"

namespace fairdraw::cuda {

/// Rounds a size up to a multiple of 16 bytes, which is the alignment of exchange blocks in peer
/// memory.
constexpr std::int64_t aligned_in_peers(std::int64_t bytes) {
  constexpr std::int64_t kAlignment = 16;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Returns the offset in bytes at which the exchange blocks begin, after the counters and the
/// flags. This offset is the same for all calls that share a peer memory.
std::int64_t end_of_flags(int shards, std::int64_t max_rows);

/// Returns the size in bytes of a peer memory whose halves have `half` bytes each.
std::int64_t bytes_with_halves(std::int64_t flags_end, std::int64_t half);

/// Checks that the most_rows of the peer memory is enough for the `rows` rows of the call.
Error check_max_rows(std::int64_t max_rows, std::int64_t rows);

/// Checks the peer memory of all shards, of which the call needs `needed` bytes, and stores its
/// addresses.
Error take_peers(const ShardedPeers& peers, std::int64_t needed, int shards, PeerBlocks& blocks);

/// Returns an error if the call has no peer memory.
Error needs_peers(const PeerBlocks& blocks);

}  // namespace fairdraw::cuda
