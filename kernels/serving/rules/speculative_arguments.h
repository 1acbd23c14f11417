// Checks of the arguments of fairdraw/speculative.h, the same for every backend (arguments.h).
#pragma once

#include "common/arguments.h"
#include "fairdraw/speculative.h"

namespace fairdraw {

/// The target's rows, with nothing that belongs to a request: what reads and filters a row.
SampleRequest rows_of(const TargetRows& target);

/// A call of verify_tree, or of verify_chain: a chain is a tree of one child a node. But it has no
/// array of parents, token i following token i - 1, and a row of the draft for each place alone.
struct DraftedCall {
  explicit DraftedCall(const VerifyChainRequest& chain, const VerifyChainResult& to = {});
  explicit DraftedCall(const VerifyTreeRequest& tree, const VerifyTreeResult& to = {})
      : request(tree), result(to), is_chain(false) {}

  VerifyTreeRequest request;
  VerifyTreeResult result;
  bool is_chain;

  /// Tokens of a request at most.
  std::int64_t width() const { return request.max_depth + 1; }
  const char* width_text() const {
    return is_chain ? "batch * (max_draft + 1)" : "batch * (max_depth + 1)";
  }
  std::int64_t draft_rows() const {
    return is_chain ? request.draft_tokens.size : request.target.logits.rows;
  }
  /// True where rows of a draft are read.
  bool knows_distribution() const {
    return request.draft_law != DraftLaw::none && request.draft_tokens.size > 0;
  }
};

Error check_drafted_call(const DraftedCall& call);

Error check_chain(const ChainSpeculativeRequest& request, const ChainSpeculativeResult& result);

}  // namespace fairdraw
