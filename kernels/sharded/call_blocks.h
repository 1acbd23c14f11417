// Exchange blocks of a call in progress: the block of this shard, and the blocks that it has
// received.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fairdraw/types.h"
#include "sharded/exchange.h"

namespace fairdraw::sharded {

class CallBlocks {
 public:
  void begin(int shards, std::uint64_t fingerprint);

  /// Starts this shard's block of the next exchange, which has a header and `bytes` zeros, and
  /// returns the address of the zeros.
  std::byte* start(std::size_t bytes);
  const std::vector<std::byte>& block() const { return block_; }

  /// Accepts the blocks of all shards for the current exchange. Returns an error if one of the
  /// blocks does not belong to this exchange of this call.
  Error take(const std::byte* blocks);
  /// Returns, for each shard, the part of its block after the header.
  std::vector<const std::byte*> parts(const std::byte* blocks) const;

  /// Returns the number of exchanges that have been made so far.
  std::int32_t exchanges() const { return static_cast<std::int32_t>(exchange_); }

 private:
  int shards_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::uint32_t exchange_ = 0;
  std::vector<std::byte> block_;
};

}  // namespace fairdraw::sharded
