// Speculation in shards, all of them in this process (sharded.h).
#pragma once

#include <functional>

#include "fairdraw/sharded_speculation.h"
#include "harness/adapters/sharded.h"

namespace fairdraw::harness {

/// After each exchange: changes what a shard got, [shards, block_bytes].
using SpeculationFault = std::function<void(std::int32_t shard, int exchange, std::byte* blocks,
                                            std::int64_t block_bytes)>;

/// Runs a call over whole rows in shards: `whole` has all columns, and the boundaries. Results of
/// request b are those of shard b % shards, so that all of them are seen.
Error speculate_in_shards(const ShardedChainRequest& whole, const VerifyChainResult& result,
                          const Execution& execution, ShardTraffic* traffic = nullptr,
                          const SpeculationFault& fault = {});
Error speculate_in_shards(const ShardedTreeRequest& whole, const VerifyTreeResult& result,
                          const Execution& execution, ShardTraffic* traffic = nullptr,
                          const SpeculationFault& fault = {});
Error speculate_in_shards(const ShardedChainSamplingRequest& whole,
                          const ChainSpeculativeResult& result, const Execution& execution,
                          ShardTraffic* traffic = nullptr, const SpeculationFault& fault = {});

}  // namespace fairdraw::harness
