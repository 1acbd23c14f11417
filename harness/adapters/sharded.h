// A call of `sample` in shards, all of them in this process: the columns are split, each shard
// makes its own call of ShardedSample, and what they exchange is copied from one to the others.
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

/// What the shards sent.
struct ShardTraffic {
  std::int64_t bytes = 0;  ///< of all blocks of all shards
  std::int32_t exchanges = 0;
  std::int64_t gathered_rows = 0;  ///< that candidates did not decide
};

/// What a wrong engine would do; by default nothing. All are called for each shard.
struct ShardFaults {
  /// Where the vocabulary is split; not given: in equal shards.
  std::function<std::vector<std::int64_t>(std::int64_t vocab)> boundaries;
  /// Before a shard's call begins: changes its request.
  std::function<void(ShardedRequest& request)> request;
  /// After each exchange: changes what the shard got, [shards, block_bytes].
  std::function<void(const ShardedRequest& request, int exchange, std::byte* blocks,
                     std::int64_t block_bytes)>
      blocks;
  /// At the end: changes the shard's results, of outputs.
  std::function<void(const ShardedRequest& request, const SampleResult& result)> result;
};

/// Equal shards, as near as the vocabulary has it.
std::vector<std::int64_t> equal_boundaries(std::int64_t vocab, int shards);

/// Runs a call over whole rows in shards: `whole` has all columns, and the boundaries. Arrays of
/// outputs are written by the shards in turn, output i by shard i % shards, so that all of them are
/// seen.
Error sample_in_shards(const ShardedRequest& whole, const SampleResult& result,
                       const Execution& execution, ShardTraffic* traffic = nullptr,
                       const ShardFaults& faults = {});
/// The same of logits.
Error sample_in_shards(const SampleRequest& request, const SampleResult& result,
                       const std::vector<std::int64_t>& boundaries, const Execution& execution,
                       ShardTraffic* traffic = nullptr, const ShardFaults& faults = {});

/// The sampler "cuda:sharded:N", N from 1 to 8: sharded calls, all shards on one GPU. Null for a
/// name that does not begin so; UsageError for another N, or with the reason where it cannot run
/// here.
std::unique_ptr<Sampler> make_cuda_sharded_sampler(const std::string& name);

/// The number behind a prefix, from 1 to `most`; 0 for a name that does not begin so. Throws
/// UsageError for another number.
int shards_in_name(const std::string& name, const std::string& prefix, int most);

/// The sampler "sharded:N", N from 1 to 64; null for a name that does not begin so. Throws
/// UsageError for another N.
std::unique_ptr<Sampler> make_sharded_sampler(const std::string& name);

/// The same with faults, for those who test the gate.
std::unique_ptr<Sampler> make_sharded_sampler(std::string name, int shards, ShardFaults faults);

}  // namespace fairdraw::harness
