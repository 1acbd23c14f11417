// All shards of a call of drafted chains or trees, in memory of one GPU.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <type_traits>
#include <vector>

#include "fairdraw/cuda_sharded_speculation.h"
#include "harness/adapters/shard_columns.h"
#include "tests/cuda/arrays.h"
#include "tests/speculation/speculation_calls.h"

namespace fairdraw::suites {

/// Drafted tokens of a path at most.
inline std::int64_t width_of(const SpeculationCall& call) {
  return call.trees ? call.max_depth : call.max_draft;
}

/// What verify_chain and verify_tree give over the whole rows.
inline SpeculationOutputs expected_of(const SpeculationCall& call) {
  HostArrays host;
  SpeculationOutputs expected(call, width_of(call));
  const Execution execution{CpuTarget::best, 1};
  const Error error =
      call.trees
          ? verify_tree(tree_in(call, host),
                        speculation_result_in<VerifyTreeResult>(expected, host), execution)
          : verify_chain(chain_in(call, host),
                         speculation_result_in<VerifyChainResult>(expected, host), execution);
  EXPECT_FALSE(error) << error.message;
  return expected;
}

/// One shard: views of its columns of rows that lie whole in device memory, and results of its own.
class DeviceChain {
 public:
  /// `boundaries` must stay where they are.
  DeviceChain(const SpeculationCall& host, const std::vector<std::int64_t>& boundaries,
              std::int32_t shard)
      : outputs(host, width_of(host)), is_tree_(host.trees) {
    harness::ShardColumns columns(boundaries[static_cast<std::size_t>(shard)],
                                  boundaries[static_cast<std::size_t>(shard) + 1]);
    request_.boundaries = {boundaries.data(), static_cast<std::int64_t>(boundaries.size())};
    request_.shard = shard;
    request_.chain = chain_in(host, arrays_);
    TargetRows& target = request_.chain.target;
    target.logits = columns.of(target.logits);
    request_.chain.draft = columns.of(request_.chain.draft);
    // Bits of columns do not begin at a word.
    HostArrays whole;
    const TargetRows on_host = target_in(host, whole);
    const auto split = [&](BitRows<const std::uint32_t>& rows,
                           const BitRows<const std::uint32_t>& of_all) {
      if (!rows.given()) return;
      const auto bits = columns.of(of_all);
      rows = {arrays_.in(
                  std::vector<std::uint32_t>(bits.data, bits.data + bits.rows * bits.row_stride)),
              bits.rows, bits.row_stride};
    };
    split(target.allowed, on_host.allowed);
    split(target.processing.prompt_mask, on_host.processing.prompt_mask);
    if (target.processing.output_counts.given()) {
      target.processing.output_counts.data += boundaries[static_cast<std::size_t>(shard)];
    }
    tree_ = {tree_in(host, arrays_), request_.boundaries, shard};
    tree_.tree.target = target;
    tree_.tree.draft = request_.chain.draft;
    tree_result_ = speculation_result_in<VerifyTreeResult>(outputs, arrays_);
    result_ = {tree_result_.tokens, tree_result_.accepted, tree_result_.statuses};
  }

  Error begin(void* stream) {
    const std::int64_t bytes = is_tree_ ? cuda::workspace_bytes(tree_, tree_result_)
                                        : cuda::workspace_bytes(request_, result_);
    workspace_.assign(static_cast<std::size_t>(bytes), 0xcd);
    cuda::Execution execution;
    execution.stream = stream;
    execution.workspace = arrays_.out(workspace_);
    execution.workspace_bytes = bytes;
    return is_tree_ ? cuda::make_sharded_tree(tree_, tree_result_, execution, call)
                    : cuda::make_sharded_chain(request_, result_, execution, call);
  }
  void fetch() { arrays_.fetch(); }
  std::int32_t undecided() const {
    std::int32_t rows = 0;
    require(cudaDeviceSynchronize(), "a kernel");
    require(cudaMemcpy(&rows, call.undecided(), sizeof(rows), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
    return rows;
  }
  /// With arrays in device memory.
  const ShardedChainRequest& request() const { return request_; }
  const VerifyChainResult& result() const { return result_; }

  /// Enqueues the drafts and offsets of another call of the same shape, in place of these.
  void change(const SpeculationCall& host, cudaStream_t stream) {
    const auto copy = [stream](const auto& view, const auto& values) {
      require(cudaMemcpyAsync(
                  const_cast<std::remove_const_t<std::remove_pointer_t<decltype(view.data)>>*>(
                      view.data),
                  values.data(), values.size() * sizeof(values[0]), cudaMemcpyHostToDevice, stream),
              "cudaMemcpyAsync");
    };
    copy(request_.chain.draft_tokens, host.draft_tokens);
    copy(request_.chain.target.offset.values, host.target.offset.values);
  }

  cuda::ShardedChain call;
  SpeculationOutputs outputs;

 private:
  bool is_tree_;
  ShardedChainRequest request_;
  VerifyChainResult result_;
  ShardedTreeRequest tree_;
  VerifyTreeResult tree_result_;
  DeviceArrays arrays_;
  std::vector<std::uint8_t> workspace_;
};

class DeviceChains {
 public:
  DeviceChains(const SpeculationCall& call, const std::vector<std::int64_t>& boundaries) {
    for (std::int32_t shard = 0; shard + 1 < static_cast<std::int32_t>(boundaries.size());
         ++shard) {
      shards_.push_back(std::make_unique<DeviceChain>(call, boundaries, shard));
    }
  }

  /// One rank makes another call.
  void replace(std::int32_t shard, const SpeculationCall& call,
               const std::vector<std::int64_t>& boundaries) {
    shards_[static_cast<std::size_t>(shard)] =
        std::make_unique<DeviceChain>(call, boundaries, shard);
  }
  Error begin(void* stream = nullptr) {
    stream_ = static_cast<cudaStream_t>(stream);
    for (const auto& shard : shards_) {
      if (Error error = shard->begin(stream)) return error;
    }
    return {};
  }
  Error send(cuda::ChainExchange exchange) {
    for (const auto& shard : shards_) {
      if (Error error = cuda::sharded_send(shard->call, exchange)) return error;
    }
    return {};
  }
  /// From here on, blocks go through memory that all shards address.
  Error use_peers(std::int64_t most_rows) {
    peers_.most_rows = most_rows;
    peers_.bytes = cuda::peer_bytes(at(0).call, most_rows);
    for (int shard = 0; shard < size(); ++shard) {
      EXPECT_EQ(cuda::peer_bytes(at(shard).call, most_rows), peers_.bytes);
      peer_memory_.emplace_back(static_cast<std::size_t>(peers_.bytes));
      peers_.memory[shard] = peer_arrays_.out(peer_memory_.back());
    }
    shares_memory_ = true;
    for (const auto& shard : shards_) {
      if (Error error = cuda::use_peers(shard->call, peers_)) return error;
    }
    return {};
  }
  const cuda::ShardedPeers& peers() const { return peers_; }
  /// What NCCL's all-gather does; nothing where shards have written to each other.
  void gather(cuda::ChainExchange exchange) {
    if (shares_memory_) return;
    for (const auto& to : shards_) {
      std::byte* at = to->call.receive(exchange);
      for (const auto& from : shards_) {
        const auto bytes = static_cast<std::size_t>(from->call.bytes(exchange));
        EXPECT_EQ(bytes, static_cast<std::size_t>(to->call.bytes(exchange)));
        if (bytes == 0) continue;
        require(cudaMemcpyAsync(at, from->call.send(exchange), bytes, cudaMemcpyDeviceToDevice,
                                stream_),
                "cudaMemcpyAsync");
        at += bytes;
      }
    }
  }
  Error receive(cuda::ChainExchange exchange) {
    for (const auto& shard : shards_) {
      if (Error error = cuda::sharded_receive(shard->call, exchange)) return error;
    }
    return {};
  }
  Error exchange(cuda::ChainExchange exchange) {
    if (Error error = send(exchange)) return error;
    gather(exchange);
    return receive(exchange);
  }
  /// The exchanges from number `first` on, and the results.
  Error run(int first, int rounds) {
    for (int number = first; number < at(0).call.exchanges(rounds); ++number) {
      if (Error error = exchange(at(0).call.exchange(number, rounds))) return error;
    }
    return finish();
  }
  Error finish() {
    for (const auto& shard : shards_) {
      if (Error error = cuda::finish_sharded(shard->call)) return error;
    }
    return {};
  }
  void fetch() {
    for (const auto& shard : shards_) shard->fetch();
  }
  /// The same on all shards.
  std::int32_t undecided() {
    const std::int32_t rows = at(0).undecided();
    for (const auto& shard : shards_) EXPECT_EQ(shard->undecided(), rows);
    return rows;
  }
  DeviceChain& at(int shard) { return *shards_[static_cast<std::size_t>(shard)]; }
  int size() const { return static_cast<int>(shards_.size()); }

 private:
  DeviceArrays peer_arrays_;
  std::deque<std::vector<std::byte>> peer_memory_;  ///< of each shard
  cuda::ShardedPeers peers_;
  bool shares_memory_ = false;  ///< else blocks are copied
  std::vector<std::unique_ptr<DeviceChain>> shards_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace fairdraw::suites
