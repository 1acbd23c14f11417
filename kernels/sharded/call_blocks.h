// The blocks of a call in progress: this shard's, and those that came.
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

  /// This shard's block of the next exchange: a header, and so many zeros; returns those.
  std::byte* start(std::size_t bytes);
  const std::vector<std::byte>& block() const { return block_; }

  /// No error, or a shard's block is no block of this exchange of this call. They count as taken.
  Error take(const std::byte* blocks);
  /// What follows the header in each shard's block.
  std::vector<const std::byte*> parts(const std::byte* blocks) const;

  /// Exchanges so far.
  std::int32_t exchanges() const { return static_cast<std::int32_t>(exchange_); }

 private:
  int shards_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::uint32_t exchange_ = 0;
  std::vector<std::byte> block_;
};

}  // namespace fairdraw::sharded
