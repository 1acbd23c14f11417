// Checks of the arguments of fairdraw/speculative.h, which are the same for every backend
// (arguments.h).
#pragma once

#include "common/arguments.h"
#include "fairdraw/speculative.h"

namespace fairdraw {

/// Returns a request that can read and filter the rows of the target, but has no parameters per
/// request.
SampleRequest rows_of(const TargetRows& target);

/// Call of accept_tree or of accept_chain, where a chain is a tree with one child per node. In
/// contrast to a tree, a chain has no array of parents, because token i follows token i - 1, and
/// has draft rows only for the positions of drafts.
struct DraftedCall {
  explicit DraftedCall(const AcceptChainRequest& chain, const AcceptChainResult& to = {});
  explicit DraftedCall(const AcceptTreeRequest& tree, const AcceptTreeResult& to = {})
      : request(tree), result(to), is_chain(false) {}

  AcceptTreeRequest request;
  AcceptTreeResult result;
  PerRequest<AcceptRule> accept_rule = AcceptRule::token_wise;  ///< rule of chains
  bool is_chain;

  /// Returns the largest number of tokens that a request may emit.
  std::int64_t width() const { return request.max_depth + 1; }
  const char* width_text() const {
    return is_chain ? "batch * (max_draft + 1)" : "batch * (max_depth + 1)";
  }
  std::int64_t draft_rows() const {
    return is_chain ? request.draft_tokens.size : request.target.logits.rows;
  }
  /// Returns whether the call reads rows of a draft distribution.
  bool knows_distribution() const {
    return request.draft_law != DraftLaw::none && request.draft_tokens.size > 0;
  }
};

Error check_drafted_call(const DraftedCall& call);

/// Checks the values of an array of rules, which must be in host memory.
Error check_accept_rules(const PerRequest<AcceptRule>& rules);

Error check_chain(const ChainSpeculativeRequest& request, const ChainSpeculativeResult& result);

}  // namespace fairdraw
