// Which wrong rule explains what became of drafted tokens: for the report alone, after a check has
// found that the right one does not.
#pragma once

#include <cstdint>
#include <span>

#include "harness/run/checks/speculation/chain_tables.h"

namespace fairdraw::harness {

/// The distributions that a position's tokens may come from.
struct StepRows {
  const Distribution& target;
  const Distribution* draft;  ///< nullptr: not known, the target's token is drawn and compared
};

/// `step` has one position under the token-wise rule: token x where draft x is accepted, the pair
/// (x, y) where y comes in its place. Adds suspects in front of those of `outcome`: a wrong test of
/// acceptance, or a wrong distribution of what comes after a rejection, if one explains the counts
/// alone; else which of the two is off.
void note_wrong_step(const Table& step, const StepRows& rows, CheckOutcome& outcome);

/// `bonus` has pairs of the last draft and the token after it; `right` is that token's row. Adds
/// the suspect that it comes from `last_draft`, the draft's row of the last draft (nullptr: not
/// known), or from `last_target`, the target's, if one explains the counts alone.
void note_wrong_bonus(const Table& bonus, const Distribution& right, const Distribution* last_draft,
                      const Distribution& last_target, CheckOutcome& outcome);

/// Adds the suspect that tokens come after the target's own, if they do.
void note_tokens_past_end(std::span<const std::int32_t> tokens, std::int32_t accepted,
                          CheckOutcome& outcome);

}  // namespace fairdraw::harness
