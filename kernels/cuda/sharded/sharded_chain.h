// Chains and trees of drafted tokens over sharded rows, as the device sees them: what a shard says
// of them, and what a request keeps between exchanges.
//
// Private to kernels/cuda. Rows come from the kernels of sharded_task.h, with a record each; a
// record that is `inactive` is of a row that is not decided, or of ranks that disagree.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/speculation/drafted_rows.h"
#include "cuda/tiles/filtered_rows.h"
#include "fairdraw/cuda_sharded.h"
#include "sharded/exchange.h"

namespace fairdraw::cuda {

/// What a shard's columns weigh in a row of the target, and in the draft's row beside it, and what
/// the drafted token does: 0 on all shards but its own.
struct RowWeights {
  std::uint64_t target, draft;
  std::uint64_t token_target, token_draft;
};
static_assert(sizeof(RowWeights) == 32);

/// What a shard says of its columns of a row of probabilities.
struct ProbabilityPart {
  RowStatus status;
  float max;
};
static_assert(sizeof(ProbabilityPart) == 8);

/// Blocks of an exchange: this rank's, and those of all ranks one after the other.
struct ChainBlocks {
  std::byte* send;
  std::byte* receive;
  std::int64_t bytes;  ///< of a block; 0: there is no such exchange

  template <class Part>
  __device__ Part* mine() const {
    return reinterpret_cast<Part*>(send);
  }
  template <class Part>
  __device__ const Part* of(int shard) const {
    return reinterpret_cast<const Part*>(receive + shard * bytes);
  }
};

/// How the chain of a request ends, from when its weights are known.
struct ChainEnd {
  std::int64_t number;   ///< of the position
  std::uint32_t ending;  ///< an Ending
  RowStatus status;
  std::uint64_t target_total, draft_total;  ///< of its rows
};

/// Everything is in range except for what lies in device memory.
struct ShardedChainTask {
  DraftTask drafts;     ///< target.logits.vocab is that of all shards
  FilteredRows target;  ///< of this shard's columns, of which there may be none
  FilteredRows draft;   ///< likewise; where the distribution is known
  int shards, shard;
  int begin;            ///< of this shard's columns
  ChainBlocks probs;    ///< ProbabilityPart a place for a draft
  ChainBlocks weights;  ///< RowWeights a row of the target
  ChainBlocks left;     ///< Sum128 a request: what is left of the target
  ChainBlocks last;     ///< int32 a request: the token that ends it, or -1
  ChainEnd* ends;       ///< [batch], where the distribution is known

  // Of chain_speculative_sampling (drafts.tests_all): the words that it may be given, in place of
  // those of seeds, and its second count.
  const std::uint64_t* accept_words;   ///< [batch, max_draft]; null: none
  const std::uint64_t* recover_words;  ///< likewise
  const std::uint64_t* bonus_words;    ///< [batch]
  std::int32_t* emitted;               ///< [batch]; null: not wanted
  RowRecord* draft_records;            ///< draft.records

  bool knows_distribution() const { return ends != nullptr; }
};

/// Enqueues what this shard says of rows of probabilities that are weighed (probability_rows.cu),
/// and what all ranks have said of them: their records.
cudaError_t send_probability_rows(const ShardedChainTask& task, cudaStream_t stream);
cudaError_t merge_probability_rows(const ShardedChainTask& task, cudaStream_t stream);

/// What the walk down a tree asks of the shards.
enum class TreeAsks : std::uint32_t {
  nothing,       ///< it has ended
  enters,        ///< nothing yet: it has not begun
  sums,          ///< what P and Q of the node sum to over what is left
  left_token,    ///< the token at a place among what is left
  target_token,  ///< the token at a place of the node's target
  rows           ///< nothing: a row that it needs is not decided
};

/// A walk between exchanges, the same on all ranks.
struct TreeWalkState {
  TreeAsks asks;
  RowStatus status;
  std::int64_t node;   ///< -1: the root
  std::int64_t depth;  ///< of accepted drafts
  std::int64_t child;  ///< that is tested
  std::uint32_t sibling;
  std::int32_t last_token;
  std::uint64_t draft_total;         ///< of what can still be drawn
  std::uint64_t p_left, q_left;      ///< of the target and of the draft
  std::int32_t owner;                ///< the shard that has the token that is asked for
  std::uint64_t p_before, q_before;  ///< left in front of its columns; p_before: or the place there
  std::uint64_t word;
};

/// What a shard answers: sums, or a token in p.
struct TreeAnswer {
  std::uint64_t p, q;
};
static_assert(sizeof(TreeAnswer) == 16);

struct Scales;

/// A call of trees. Weights have a place a row: what a node's rows weigh, and the token that leads
/// to the node. `chain.left` are the answers.
struct ShardedTreeTask {
  ShardedChainTask chain;
  TreeWalkState* walks;  ///< [batch], where the distribution is known
  Scales* scales;        ///< likewise
  std::int32_t* paths;   ///< [batch, max_depth]: accepted drafts by their numbers
};

/// Bytes of a request's scales.
std::int64_t scales_bytes();

// sharded_tree.cu; batch in [1, 2^22).

/// Enqueues the block of weights, with which walks begin.
cudaError_t weigh_trees(const ShardedTreeTask& task, Path path, cudaStream_t stream);
/// Enqueues the walks as far as they go by what was answered; `begins`: nothing was yet.
cudaError_t advance_trees(const ShardedTreeTask& task, bool begins, cudaStream_t stream);
/// Enqueues the block of answers to what walks ask.
cudaError_t answer_trees(const ShardedTreeTask& task, Path path, cudaStream_t stream);
/// Enqueues the results.
cudaError_t write_trees(const ShardedTreeTask& task, const VerifyTreeResult& result,
                        cudaStream_t stream);

// sharded_chain.cu; batch in [1, 2^22).

/// Enqueues the block of weights.
cudaError_t weigh_chains(const ShardedChainTask& task, Path path, cudaStream_t stream);
/// Enqueues the walks, and the block of what is left.
cudaError_t walk_sharded_chains(const ShardedChainTask& task, Path path, cudaStream_t stream);
/// Enqueues the block of last tokens.
cudaError_t draw_last_tokens(const ShardedChainTask& task, Path path, cudaStream_t stream);
/// Enqueues the results.
cudaError_t write_chains(const ShardedChainTask& task, const VerifyChainResult& result,
                         cudaStream_t stream);

}  // namespace fairdraw::cuda
