// Speculation over a vocabulary whose columns lie on several ranks: what verify_chain, verify_tree
// (speculative.h) and chain_speculative_sampling (sampling.h) give over the whole rows, bit for
// bit, on every rank, without gathering a row.
//
// A shard has the columns boundaries[s] to boundaries[s + 1], exclusive, of every row of the target
// and of the draft. Drafted tokens are ids of the whole vocabulary, and these and all else that is
// not of columns (filters, seeds, lists, lengths, parents) are the same on every rank. The packed
// mask `allowed`, processing.prompt_mask and processing.output_counts are of the shard's columns.
//
// A call is a number of exchanges, moved by the caller as those of ShardedSample are (sharded.h):
//
//   ShardedSpeculation call;
//   if (Error error = call.begin(request, result)) return error;
//   while (call.block_bytes() > 0) {
//     std::vector<std::byte> blocks(shards * call.block_bytes());
//     all_gather(call.block(), call.block_bytes(), blocks.data());
//     if (Error error = call.receive(blocks.data())) return error;
//   }
//
// How many there are:
//   - Those that decide the rows, as in ShardedSample: what survives the filters in each row of the
//     target, and of the draft where its distribution is known. All rows at once, those that the
//     path never reaches too. Where drafts have no distribution, or the request is greedy, rows
//     bring the target's tokens, and nothing else is asked.
//   - 1 for the weights: of each row their sum, and of each drafted token its own. From these all
//     ranks test the same drafts with the same words.
//   - 1 for each draft that is rejected, of 16 bytes a request and shard: the sums of what is left
//     of the target. One of a chain; of a tree as many as children of one path are rejected. All
//     requests ask at once.
//   - 1 for the token that ends a path, of 4 bytes a request and shard.
//
// Why it is exact: the weights of speculative.h are relative to the row's octave, which all ranks
// know, and no tile is in them; so sums of shards are sums of rows, in any order. What a rejected
// child leaves is max(P A - Q B, 0) with two long integers A and B that follow from sums alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "fairdraw/sampling.h"
#include "fairdraw/sharded.h"
#include "fairdraw/speculative.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// One rank's part of a call of verify_chain.
struct ShardedChainRequest {
  VerifyChainRequest chain;  ///< over the shard's columns, whose number may be 0 (then data of
                             ///< target.logits and draft may be null)
  View<const std::int64_t> boundaries;  ///< as in ShardedRequest
  std::int32_t shard = 0;               ///< this rank's
};

/// One rank's part of a call of verify_tree.
struct ShardedTreeRequest {
  VerifyTreeRequest tree;  ///< likewise
  View<const std::int64_t> boundaries;
  std::int32_t shard = 0;
};

/// One rank's part of a call of chain_speculative_sampling.
struct ShardedChainSamplingRequest {
  ChainSpeculativeRequest chain;  ///< likewise
  View<const std::int64_t> boundaries;
  std::int32_t shard = 0;
  /// Random words to draw with, instead of those of seeds and offsets: none, or all three.
  View<const std::uint64_t> accept_words = {};   ///< [batch, n]
  View<const std::uint64_t> recover_words = {};  ///< [batch, n]
  View<const std::uint64_t> bonus_words = {};    ///< [batch]
};

/// A call in progress. Not for several threads at a time.
class ShardedSpeculation {
 public:
  ShardedSpeculation();
  ~ShardedSpeculation();
  ShardedSpeculation(ShardedSpeculation&&) noexcept;
  ShardedSpeculation& operator=(ShardedSpeculation&&) noexcept;

  /// Starts a call, and makes the block of the first exchange. Arrays of the request and of the
  /// result must stay alive and unchanged until the call is done. On an error nothing is written,
  /// and there is no call.
  Error begin(const ShardedChainRequest& request, const VerifyChainResult& result,
              const Execution& execution = {});
  Error begin(const ShardedTreeRequest& request, const VerifyTreeResult& result,
              const Execution& execution = {});
  Error begin(const ShardedChainSamplingRequest& request, const ChainSpeculativeResult& result,
              const Execution& execution = {});

  /// As in ShardedSample.
  std::int64_t block_bytes() const;
  const std::byte* block() const;
  Error receive(const void* blocks);
  std::int32_t exchanges() const;

 private:
  class Call;
  std::unique_ptr<Call> call_;
};

}  // namespace fairdraw
