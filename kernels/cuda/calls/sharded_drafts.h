// A call of drafted tokens over sharded rows: its tasks, and where its arrays lie in a workspace.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "common/bump_allocator.h"
#include "cuda/calls/sharded_peers.h"
#include "cuda/calls/sharded_rows.h"
#include "cuda/sharded/peer_gather.h"
#include "cuda/sharded/sharded_chain.h"
#include "cuda/sharded/sharded_task.h"
#include "cuda/tiles/tile_spread.h"
#include "fairdraw/cuda_sharded_speculation.h"
#include "sharded/speculation_call.h"

namespace fairdraw::cuda {

/// A call that has been checked.
struct ChainParts {
  static constexpr int kChainExchanges = 6;

  bool is_tree = false;
  ShardedTreeTask tree{};  ///< of a chain `chain` alone
  ShardedChainTask& chain = tree.chain;
  ShardedTask target{};
  ProcessedColumns processed;  ///< of the target
  ShardedTask draft{};         ///< of the draft's logits
  TileSpread of_target, of_draft;
  DraftLaw law = DraftLaw::none;  ///< none, too, where no place for a draft is
  ChainBlocks blocks[kChainExchanges]{};
  PeerBlocks peers{};  ///< not given: the caller moves the blocks
  VerifyChainResult result;
  VerifyTreeResult tree_result;
  Path path{};
  cudaStream_t stream = nullptr;

  ChainParts() = default;
  ChainParts(const ChainParts&) = delete;  // `chain` is a part
  ChainParts& operator=(const ChainParts&) = delete;

  /// Answers that a tree's walk asks for: one for each rejected draft, and one for the last token.
  int answers() const { return static_cast<int>(chain.drafts.drafts.max_draft) + 1; }
  bool is_empty() const { return chain.drafts.target.batch == 0; }
  /// The draft's logits are rows of all exchanges but that of tokens. There are none without rows
  /// of the target.
  bool has_draft_rows(ShardedExchange exchange) const {
    return law == DraftLaw::logits && exchange != ShardedExchange::tokens;
  }
  ChainBlocks& at(ChainExchange exchange) { return blocks[static_cast<int>(exchange)]; }
  /// A call has a flag at least: requests without rows have results, too.
  Error check_rows(std::int64_t most_rows) const {
    return check_most_rows(most_rows, std::max<std::int64_t>(target.rows(), 1));
  }
  /// Bytes of a memory of peers.
  std::int64_t place_peers(std::int64_t most_rows, PeerBlocks& memory) const;

  Error send_summaries() const;
  Error answer(ShardedExchange exchange) const;
  Error merge(ShardedExchange exchange) const;
  /// This rank's block, in the workspace; and what is made of those of all.
  Error make_block(ChainExchange exchange) const;
  Error take_blocks(ChainExchange exchange) const;
  Error make_block_of_tree(ChainExchange exchange) const;
  PeerGather gather(ChainExchange exchange) const;
};

/// none, too, where no place for a draft is.
DraftLaw law_of(const sharded::SpeculationCall& call);

/// The arrays of a call in a workspace, or what they take.
void place_drafts(const sharded::SpeculationCall& call, BumpAllocator& memory, ChainParts& parts);

}  // namespace fairdraw::cuda
