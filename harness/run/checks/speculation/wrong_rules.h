// Finds wrong rules that explain the outcomes of drafted tokens. The result is only for the report,
// after a check has found that the right rule does not explain the outcomes.
#pragma once

#include <cstdint>
#include <span>

#include "harness/run/checks/speculation/chain_tables.h"

namespace fairdraw::harness {

/// The distributions of the tokens at a position.
struct StepRows {
  const Distribution& target;
  const Distribution* draft;  ///< nullptr: not known; then the target's token is drawn and compared
};

/// Adds suspected causes before those of `outcome`, if exactly one wrong rule explains the counts:
/// a wrong acceptance test, or a wrong distribution after a rejection. If no single rule
/// explains the counts, the function names whether the test or the distribution is wrong. The table
/// `step` has one position under the token-wise rule: the cell is token x if draft x is accepted,
/// and the pair (x, y) if y replaces it.
void note_wrong_step(const Table& step, const StepRows& rows, CheckOutcome& outcome);

/// Adds the suspected cause that the token after the last draft comes from `last_draft`, the
/// draft's row of the last draft (nullptr: not known), or from `last_target`, the target's row, if
/// exactly one of these explains the counts. The table `bonus` has pairs of the last draft and the
/// token after it; `right` is that token's row.
void note_wrong_bonus(const Table& bonus, const Distribution& right, const Distribution* last_draft,
                      const Distribution& last_target, CheckOutcome& outcome);

/// Adds a suspected cause if further tokens follow the token that was drawn from the target.
void note_tokens_past_end(std::span<const std::int32_t> tokens, std::int32_t accepted,
                          CheckOutcome& outcome);

}  // namespace fairdraw::harness
