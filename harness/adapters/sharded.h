// Runs a call of the function `sample` in shards within this process. Each shard has some of the
// columns and makes its own call of ShardedSample, and this code copies the blocks that the shards
// exchange.
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

/// The amount of data that the shards sent.
struct ShardTraffic {
  std::int64_t bytes = 0;  ///< number of bytes in the blocks of all shards
  std::int32_t exchanges = 0;
  std::int64_t gathered_rows = 0;  ///< number of rows that the candidates did not decide
};

/// The faults of a wrong engine, none by default. Each of these functions is called once for each
/// shard.
struct ShardFaults {
  /// Returns the columns at which the vocabulary is split; by default the shards are equal.
  std::function<std::vector<std::int64_t>(std::int64_t vocab)> boundaries;
  /// Changes a shard's request before its call begins.
  std::function<void(ShardedRequest& request)> request;
  /// Changes the blocks [shards, block_bytes] that a shard received, after each exchange.
  std::function<void(const ShardedRequest& request, int exchange, std::byte* blocks,
                     std::int64_t block_bytes)>
      blocks;
  /// Changes the shard's results at the end of the call.
  std::function<void(const ShardedRequest& request, const SampleResult& result)> result;
};

/// Returns the boundaries of shards that are as equal as the vocabulary size allows.
std::vector<std::int64_t> equal_boundaries(std::int64_t vocab, int shards);

/// Runs a call over whole rows in shards. The request `whole` has all columns, and the boundaries
/// between shards. Output i is copied from shard i % shards, so that the results of all shards are
/// tested.
Error sample_in_shards(const ShardedRequest& whole, const SampleResult& result,
                       const Execution& execution, ShardTraffic* traffic = nullptr,
                       const ShardFaults& faults = {});
/// Runs a call over rows of logits in shards, in the same way.
Error sample_in_shards(const SampleRequest& request, const SampleResult& result,
                       const std::vector<std::int64_t>& boundaries, const Execution& execution,
                       ShardTraffic* traffic = nullptr, const ShardFaults& faults = {});

/// Makes the sampler "cuda:sharded:N", with N from 1 to 8, whose shards all run on one GPU. Returns
/// null for a name that does not begin with "cuda:sharded:". Throws UsageError if N is another
/// number or the sampler cannot run here; the message has the reason.
std::unique_ptr<Sampler> make_cuda_sharded_sampler(const std::string& name);

/// Returns the number after `prefix` in a sampler's name, which is from 1 to `most`; returns 0 for
/// a name without this prefix. Throws UsageError if the number in the name is not within the range.
int shards_in_name(const std::string& name, const std::string& prefix, int most);

/// Makes the sampler "sharded:N", with N from 1 to 64; returns null for a name without this prefix.
/// Throws UsageError if N is another number.
std::unique_ptr<Sampler> make_sharded_sampler(const std::string& name);

/// Makes the sampler "sharded:N" with the given faults, for tests of the gate.
std::unique_ptr<Sampler> make_sharded_sampler(std::string name, int shards, ShardFaults faults);

}  // namespace fairdraw::harness
