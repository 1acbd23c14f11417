// A second implementation of speculation in serving (fairdraw/speculative.h): from the
// distributions of rows and the random words to the emitted tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fairdraw/speculative.h"
#include "reference/integer_model.h"

namespace fairdraw::reference {

/// The random words of a position, one for each purpose.
struct PositionWords {
  std::uint64_t draw = 0, accept = 0, recover = 0, bonus = 0;
  std::vector<std::uint64_t> accept_next = {};  ///< in a tree: words for all children but the first
  /// The words of the attempts of a draw by seed; the first of these words is `draw`. The function
  /// is not set if the caller gave the random word.
  std::function<std::uint64_t(std::uint32_t)> attempts = {};

  /// Returns the target's token if the draft's distribution does not matter: the same token that
  /// `sample` gives.
  std::int32_t drawn_from(const IntegerRow& row) const {
    return attempts ? row.token_by_attempts(attempts) : row.token_for(draw);
  }
};

struct SpeculationOutcome {
  RowStatus status = RowStatus::ok;
  std::vector<std::int32_t> tokens;  ///< the emitted tokens; none if the request fails
  std::vector<std::int32_t> nodes;   ///< in a tree: the accepted drafted tokens
  std::int32_t accepted = 0;         ///< number of accepted drafted tokens
};

/// Accepts or rejects a chain of n = drafted.size() tokens. `target` has n + 1 rows; `draft` has n
/// rows, or none if the distribution is unknown; `words` has n + 1 positions; `greedy` says whether
/// the request is greedy. The status is the first of these faults: first, a drafted token outside
/// the vocabulary; then, position by position as far as the chain gets, the target's row, the
/// draft's row, and a drafted token of weight 0. Throws std::invalid_argument if the lengths of the
/// arrays do not match. With AcceptRule::block, the positions count until a share is 0, and the
/// last row of the target counts if the whole chain passes.
SpeculationOutcome accept_chain_model(std::span<const IntegerRow> target,
                                      std::span<const IntegerRow> draft,
                                      std::span<const std::int32_t> drafted,
                                      std::span<const PositionWords> words, std::size_t vocab,
                                      bool greedy, AcceptRule rule = AcceptRule::token_wise);

/// The known distribution of a tree's drafts, if any.
struct TreeDraft {
  std::span<const IntegerRow> rows;  ///< n + 1 rows, parallel to the target's; none if the
                                     ///< distribution is unknown
  SiblingSampling siblings = SiblingSampling::with_replacement;
  bool greedy = false;  ///< true for a greedy request, which ignores the distribution
};

/// Accepts or rejects a tree of n = drafted.size() tokens. `target` has n + 1 rows; row j + 1 is
/// the row after drafted token j. `words` are the random words by depth; at most n + 1 of them are
/// used. The status is the first of these faults in this order: a drafted token outside the
/// vocabulary, a parent that does not come before its child or that has too many children for a
/// known distribution, and a path longer than `max_depth`. Then, along the path, the target's row,
/// the draft's row if the node has children, and a tested child of weight 0 count.
SpeculationOutcome accept_tree_model(std::span<const IntegerRow> target,
                                     std::span<const std::int32_t> drafted,
                                     std::span<const std::int32_t> parents,
                                     std::span<const PositionWords> words, std::size_t vocab,
                                     std::size_t max_depth, const TreeDraft& draft = {});

}  // namespace fairdraw::reference
