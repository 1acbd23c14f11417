#include "cuda/calls/sharded_peers.h"

#include <algorithm>
#include <string>

namespace fairdraw::cuda {
namespace {

constexpr std::int64_t kMaxPeerRows = 0x7fffffff;
constexpr std::int64_t kHalves = 2;

}  // namespace

std::int64_t end_of_flags(int shards, std::int64_t max_rows) {
  constexpr std::int64_t kKindsOfFlags = 3;
  return static_cast<std::int64_t>(sizeof(PeerCounts)) +
         aligned_in_peers(kKindsOfFlags * shards * max_rows *
                          static_cast<std::int64_t>(sizeof(std::uint64_t)));
}

std::int64_t bytes_with_halves(std::int64_t flags_end, std::int64_t half) {
  return flags_end + kHalves * half;
}

Error check_max_rows(std::int64_t max_rows, std::int64_t rows) {
  if (max_rows >= rows && max_rows <= kMaxPeerRows) return {};
  return {ErrorCode::invalid_argument, "peers.most_rows is " + std::to_string(max_rows) +
                                           "; allowed: " + std::to_string(rows) +
                                           ", the call's rows, to " + std::to_string(kMaxPeerRows)};
}

Error take_peers(const ShardedPeers& peers, std::int64_t needed, int shards, PeerBlocks& blocks) {
  if (peers.bytes < needed) {
    return {ErrorCode::invalid_argument, "peers.bytes is " + std::to_string(peers.bytes) +
                                             "; allowed: >= " + std::to_string(needed)};
  }
  constexpr std::uintptr_t kAlignment = 16;
  for (int shard = 0; shard < shards; ++shard) {
    const std::byte* memory = peers.memory[shard];
    if (memory != nullptr && reinterpret_cast<std::uintptr_t>(memory) % kAlignment == 0) continue;
    return {ErrorCode::invalid_argument,
            "peers.memory[" + std::to_string(shard) + "] is " +
                (memory == nullptr ? "null" : "not at a multiple of 16 bytes") +
                "; allowed: memory of that shard's rank, as this rank addresses it"};
  }
  // The size of a half depends only on the size of the peer memory, and not on the call, so that
  // all calls that share the memory use the same halves.
  constexpr std::int64_t kUnit = 16;
  blocks.half = (peers.bytes - blocks.flags_end) / kHalves / kUnit * kUnit;
  std::copy(peers.memory, peers.memory + shards, blocks.memory);
  return {};
}

Error needs_peers(const PeerBlocks& blocks) {
  if (blocks.given()) return {};
  return {ErrorCode::invalid_argument, "peers is not set; allowed: a call after use_peers()"};
}

}  // namespace fairdraw::cuda
