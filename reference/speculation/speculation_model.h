// Speculation in serving (fairdraw/speculative.h), a second time: from the
// distributions of rows and random words to emitted tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fairdraw/speculative.h"
#include "reference/integer_model.h"

namespace fairdraw::reference {

/// The random words of one position, by purpose.
struct PositionWords {
  std::uint64_t draw = 0, accept = 0, recover = 0, bonus = 0;
  std::vector<std::uint64_t> accept_next = {};  ///< of a tree: of the second child on
  /// Words of the attempts of a draw by seed, whose first word is `draw`. None: the word was given.
  std::function<std::uint64_t(std::uint32_t)> attempts = {};

  /// Token of the target where the draft's distribution does not matter: what `sample` gives.
  std::int32_t drawn_from(const IntegerRow& row) const {
    return attempts ? row.token_by_attempts(attempts) : row.token_for(draw);
  }
};

struct SpeculationOutcome {
  RowStatus status = RowStatus::ok;
  std::vector<std::int32_t> tokens;  ///< emitted ones alone; none where the request fails
  std::vector<std::int32_t> nodes;   ///< of a tree: drafted tokens that are accepted
  std::int32_t accepted = 0;         ///< drafted tokens that are accepted
};

/// A chain of n = drafted.size() tokens. `target`: n + 1 rows; `draft`: n rows, or none where the
/// distribution is unknown; `words`: of n + 1 positions. `greedy`: of the request. The first of
/// these that is found decides the status: a drafted token outside of the vocabulary; then,
/// position by position and no further than the chain gets, the target's row, the draft's row, a
/// drafted token of weight 0. Throws std::invalid_argument where lengths do not fit.
SpeculationOutcome accept_chain_model(std::span<const IntegerRow> target,
                                      std::span<const IntegerRow> draft,
                                      std::span<const std::int32_t> drafted,
                                      std::span<const PositionWords> words, std::size_t vocab,
                                      bool greedy);

/// What is known of the distribution of a tree's drafts.
struct TreeDraft {
  std::span<const IntegerRow> rows;  ///< n + 1, parallel to the target's; none: nothing is known
  SiblingSampling siblings = SiblingSampling::with_replacement;
  bool greedy = false;  ///< of the request: the distribution is of no use then
};

/// A tree of n = drafted.size() tokens, `target`: n + 1 rows, row j + 1 after drafted token j;
/// `words`: by depth, n + 1 of them at most used. Statuses: a drafted token outside of the
/// vocabulary, a parent that does not come before its child or, of known distribution, has too
/// many, a path longer than `max_depth`; then, along the path, the target's row, the draft's row
/// where there are children, a child of weight 0 that is tested.
SpeculationOutcome accept_tree_model(std::span<const IntegerRow> target,
                                     std::span<const std::int32_t> drafted,
                                     std::span<const std::int32_t> parents,
                                     std::span<const PositionWords> words, std::size_t vocab,
                                     std::size_t max_depth, const TreeDraft& draft = {});

}  // namespace fairdraw::reference
