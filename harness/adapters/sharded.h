// Runs a call of `sample` in shards within this process. The columns are split, each shard makes
// its own call of ShardedSample, and the blocks that they exchange are copied between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fairdraw/sharded.h"
#include "harness/contract/sampler.h"

namespace fairdraw::harness {

/// The data that the shards sent.
struct ShardTraffic {
  std::int64_t bytes = 0;  ///< all blocks of all shards
  std::int32_t exchanges = 0;
  std::int64_t gathered_rows = 0;  ///< rows that the candidates did not decide
};

/// Faults of a wrong engine, by default none. Each function is called once for each shard.
struct ShardFaults {
  /// Returns where the vocabulary is split; by default in equal shards.
  std::function<std::vector<std::int64_t>(std::int64_t vocab)> boundaries;
  /// Changes a shard's request before its call begins.
  std::function<void(ShardedRequest& request)> request;
  /// Changes the blocks that a shard received, [shards, block_bytes], after each exchange.
  std::function<void(const ShardedRequest& request, int exchange, std::byte* blocks,
                     std::int64_t block_bytes)>
      blocks;
  /// Changes the shard's results of each output at the end of the call.
  std::function<void(const ShardedRequest& request, const SampleResult& result)> result;
};

/// Returns boundaries of shards that are as equal as the vocabulary allows.
std::vector<std::int64_t> equal_boundaries(std::int64_t vocab, int shards);

/// Runs a call over whole rows in shards. `whole` has all columns, and the boundaries. Output i is
/// copied from shard i % shards, so that the results of all shards are tested.
Error sample_in_shards(const ShardedRequest& whole, const SampleResult& result,
                       const Execution& execution, ShardTraffic* traffic = nullptr,
                       const ShardFaults& faults = {});
/// Does the same for logits.
Error sample_in_shards(const SampleRequest& request, const SampleResult& result,
                       const std::vector<std::int64_t>& boundaries, const Execution& execution,
                       ShardTraffic* traffic = nullptr, const ShardFaults& faults = {});

/// Makes the sampler "cuda:sharded:N", N from 1 to 8, with all shards on one GPU. Returns null for
/// a name that does not begin with "cuda:sharded:". Throws UsageError for another N, or with the
/// reason if the sampler cannot run here.
std::unique_ptr<Sampler> make_cuda_sharded_sampler(const std::string& name);

/// Returns the number after a prefix of a name, from 1 to `most`; 0 for a name without this prefix.
/// Throws UsageError if the number in the name is not within the range.
int shards_in_name(const std::string& name, const std::string& prefix, int most);

/// Makes the sampler "sharded:N", N from 1 to 64; returns null for a name without this prefix.
/// Throws UsageError for another N.
std::unique_ptr<Sampler> make_sharded_sampler(const std::string& name);

/// Makes the sampler "sharded:N" with faults, for tests of the gate.
std::unique_ptr<Sampler> make_sharded_sampler(std::string name, int shards, ShardFaults faults);

}  // namespace fairdraw::harness
