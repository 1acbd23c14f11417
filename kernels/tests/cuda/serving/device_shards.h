// Helper that keeps all shards of a sharded call in the memory of one GPU.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "fairdraw/cuda_sharded.h"
#include "tests/cuda/arrays.h"
#include "tests/cuda/serving/device_shard.h"

namespace fairdraw::suites {

/// All shards of a sharded call, on one GPU.
class DeviceShards {
 public:
  void add(const ShardedRequest& host, bool wants_mask, const LogprobsResult& reports = {},
           ShardWants wants = ShardWants::survivors) {
    shards_.push_back(std::make_unique<DeviceShard>(host, wants_mask, reports, wants));
  }
  Error begin(void* stream = nullptr) {
    stream_ = static_cast<cudaStream_t>(stream);
    for (const auto& shard : shards_) {
      if (Error error = shard->begin(stream)) return error;
    }
    return {};
  }
  /// Makes all further exchanges use memory that all shards can address.
  Error use_peers(std::int64_t most_rows) {
    cuda::ShardedPeers& peers = peers_;
    peers.most_rows = most_rows;
    peers.bytes = cuda::peer_bytes(at(0).call, most_rows);
    for (int shard = 0; shard < size(); ++shard) {
      EXPECT_EQ(cuda::peer_bytes(at(shard).call, most_rows), peers.bytes);
      peer_memory_.emplace_back(static_cast<std::size_t>(peers.bytes));
      peers.memory[shard] = arrays_.out(peer_memory_.back());
    }
    return use_peers_of(*this);
  }
  /// Makes all further exchanges use the memory of another call, which is larger.
  Error use_peers_of(const DeviceShards& other) {
    shares_memory_ = true;
    for (const auto& shard : shards_) {
      if (Error error = cuda::use_peers(shard->call, other.peers_)) return error;
    }
    return {};
  }
  Error send(cuda::ShardedExchange exchange) {
    for (const auto& shard : shards_) {
      if (Error error = cuda::sharded_send(shard->call, exchange)) return error;
    }
    return {};
  }
  /// Copies the blocks as NCCL's all-gather does; does nothing if shards write to each other's
  /// memory.
  void gather(cuda::ShardedExchange exchange) {
    if (shares_memory_) return;
    for (const auto& to : shards_) {
      std::byte* at = to->call.receive(exchange);
      for (const auto& from : shards_) {
        const auto bytes = static_cast<std::size_t>(from->call.bytes(exchange));
        require(cudaMemcpyAsync(at, from->call.send(exchange), bytes, cudaMemcpyDeviceToDevice,
                                stream_),
                "cudaMemcpyAsync");
        at += bytes;
      }
    }
  }
  Error receive(cuda::ShardedExchange exchange) {
    for (const auto& shard : shards_) {
      if (Error error = cuda::sharded_receive(shard->call, exchange)) return error;
    }
    return {};
  }
  Error exchange(cuda::ShardedExchange exchange) {
    if (Error error = send(exchange)) return error;
    gather(exchange);
    return receive(exchange);
  }
  /// Runs the exchanges of a call before those of its ranks: the summary, tokens and sums.
  Error decide_by_candidates() {
    if (Error error = exchange(cuda::ShardedExchange::summary)) return error;
    return exchange_tokens();
  }
  Error exchange_tokens() {
    if (Error error = exchange(cuda::ShardedExchange::tokens)) return error;
    return exchange(cuda::ShardedExchange::sums);
  }
  /// Runs the remaining exchanges, for the number of rows that undecided() has returned.
  Error go_on(std::int32_t undecided) {
    for (std::int32_t left = at(0).call.gathers(undecided); left > 0; --left) {
      if (Error error = exchange(cuda::ShardedExchange::gather)) return error;
    }
    return exchange(cuda::ShardedExchange::ranks);
  }
  /// Runs all exchanges of a sharded call.
  Error run() {
    if (Error error = decide_by_candidates()) return error;
    return go_on(undecided());
  }
  DeviceShard& at(int shard) { return *shards_[static_cast<std::size_t>(shard)]; }
  int size() const { return static_cast<int>(shards_.size()); }
  /// Returns the number of undecided rows, which is the same on all shards.
  std::int32_t undecided() {
    const std::int32_t rows = at(0).undecided();
    for (int shard = 1; shard < size(); ++shard) EXPECT_EQ(at(shard).undecided(), rows);
    return rows;
  }
  void fetch() {
    for (const auto& shard : shards_) shard->fetch();
    arrays_.fetch();
  }

 private:
  cudaStream_t stream_ = nullptr;
  DeviceArrays arrays_;
  std::deque<std::vector<std::byte>> peer_memory_;  ///< per shard
  cuda::ShardedPeers peers_;
  bool shares_memory_ = false;  ///< false if an exchange copies blocks between the shards
  std::vector<std::unique_ptr<DeviceShard>> shards_;
};

}  // namespace fairdraw::suites
