// A call of ShardedSpeculation, whichever operation it is.
#pragma once

#include <cstdint>

#include "fairdraw/sharded_speculation.h"
#include "sharded/fingerprint.h"

namespace fairdraw::sharded {

struct SpeculationCall {
  View<const std::int64_t> boundaries;
  std::int32_t shard = 0;

  TargetRows target;  ///< of the shard's columns
  TileInput target_input = TileInput::logits;
  std::int64_t max_draft = 0;
  std::int64_t max_depth = 0;  ///< most drafted tokens of a path
  View<const std::int32_t> draft_tokens, draft_lengths;
  bool is_tree = false;              ///< then rows of the draft are parallel to the target's
  View<const std::int32_t> parents;  ///< of trees
  DraftLaw draft_law = DraftLaw::none;
  SiblingSampling siblings = SiblingSampling::with_replacement;
  RowsView draft;
  LawFilters draft_filters;

  /// chain_speculative_sampling: all rows and all drafts count, those after a rejection too, and a
  /// draft may be one that its distribution never gives.
  bool tests_all = false;
  View<const std::uint64_t> accept_words, recover_words, bonus_words;

  View<std::int32_t> tokens, nodes, accepted, emitted;
  View<RowStatus> statuses;
};

/// No error, or one that names the field, its value and the allowed range.
Error check_speculation(const ShardedChainRequest& request, const VerifyChainResult& result);
Error check_speculation(const ShardedTreeRequest& request, const VerifyTreeResult& result);
Error check_speculation(const ShardedChainSamplingRequest& request,
                        const ChainSpeculativeResult& result);

/// Of requests that are right.
SpeculationCall call_of(const ShardedChainRequest& request, const VerifyChainResult& result);
SpeculationCall call_of(const ShardedTreeRequest& request, const VerifyTreeResult& result);
SpeculationCall call_of(const ShardedChainSamplingRequest& request,
                        const ChainSpeculativeResult& result);

/// Of all that decides tokens and layouts and is the same on all ranks.
std::uint64_t fingerprint_of(const SpeculationCall& call, ArraysLie arrays = ArraysLie::on_host);

}  // namespace fairdraw::sharded
