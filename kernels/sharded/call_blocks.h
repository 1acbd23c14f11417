// The blocks of a call in progress: this shard's, and those that came; and what the handles of
// public headers do with a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/arguments.h"
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
  /// What follows the header in each shard's block, from `offset` on.
  std::vector<const std::byte*> parts(const std::byte* blocks, std::size_t offset = 0) const;

  /// Exchanges so far.
  std::int32_t exchanges() const { return static_cast<std::int32_t>(exchange_); }

 private:
  int shards_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::uint32_t exchange_ = 0;
  std::vector<std::byte> block_;
};

// --- Handles
// --------------------------------------------------------------------------------------
// A call has begin(...), receive(blocks), done() and blocks().

template <class Call, class... Arguments>
Error begin_call(std::unique_ptr<Call>& call, const Arguments&... arguments) {
  call = std::make_unique<Call>();
  Error error = call->begin(arguments...);
  if (error) call.reset();
  return error;
}

template <class Call>
std::int64_t block_bytes_of(const std::unique_ptr<Call>& call) {
  if (call == nullptr || call->done()) return 0;
  return static_cast<std::int64_t>(call->blocks().block().size());
}

template <class Call>
const std::byte* block_of(const std::unique_ptr<Call>& call) {
  return call == nullptr ? nullptr : call->blocks().block().data();
}

template <class Call>
Error receive_in(std::unique_ptr<Call>& call, const void* blocks) {
  if (call == nullptr || call->done()) {
    return {ErrorCode::invalid_argument, "receive: there is no call in progress"};
  }
  if (blocks == nullptr) return out_of_range("blocks", "null", "the blocks of all shards");
  Error error = call->receive(static_cast<const std::byte*>(blocks));
  if (error) call.reset();
  return error;
}

template <class Call>
std::int32_t exchanges_of(const std::unique_ptr<Call>& call) {
  return call == nullptr ? 0 : call->blocks().exchanges();
}

}  // namespace fairdraw::sharded
