// Ways to draw a token from a row, each exact in real arithmetic. In float64 a sum of 2^20 tokens
// has a relative error of at most 2^20 * 2^-53, and a uniform of 53 bits an error of 2^-53. No
// probability is off by more than 2^-32, which moves no count of 10^7 draws by more than 0.003.
#pragma once

#include "suites/gate/identify/profile_sampler.h"

namespace fairdraw::suites {

/// Draws the argmax of log p + Gumbel noise: a block by its mass, then a token of this block.
DrawToken gumbel_race(const RowToDraw& row);
/// Draws the first of exponential clocks of rate p: a block, then a token of this block.
DrawToken exponential_clocks(const RowToDraw& row);
/// Draws from Walker's table as built by Vose: a column, then one of its two tokens.
DrawToken alias_table(const RowToDraw& row);
/// Draws from the unfiltered row, above a pivot, until a kept token comes. A rejected token raises
/// the pivot to its own probability, or to the middle between that and the largest probability if
/// no kept token lies below the middle.
DrawToken two_pivots(const RowToDraw& row);
/// Draws from the unfiltered row until a kept token comes, at most 64 times; then from the kept
/// tokens.
DrawToken propose_and_accept(const RowToDraw& row);
/// Draws by proposals until a kept token comes, with Walker's tables of both distributions.
DrawToken alias_then_filters(const RowToDraw& row);
/// Draw by the inverse distribution function: in the order of decreasing probability, from the last
/// id down, and in a hashed order of ids.
DrawToken sorted_search(const RowToDraw& row);
DrawToken from_the_top(const RowToDraw& row);
DrawToken in_hashed_order(const RowToDraw& row);
/// Draws by reservoir sampling: each element replaces the previous choice with probability its mass
/// over the mass so far. The reservoir first chooses a block, then a token of the chosen block.
DrawToken reservoir(const RowToDraw& row);
/// Draws by envelopes, which tokens within a factor of two share: a group by its envelope, then a
/// uniform token of the group, accepted with probability p over the envelope, at least half.
DrawToken envelopes(const RowToDraw& row);
/// Draws a segment of 1024 ids by its mass, then a token of the segment with another word.
DrawToken segments(const RowToDraw& row);
/// Draws by bisection of the ids: chooses each half by its mass, with a random word of its own.
DrawToken bisection(const RowToDraw& row);
/// Draws bit by bit until the remaining interval is inside that of one token.
DrawToken bit_by_bit(const RowToDraw& row);
/// Draws by the inverse distribution function in log space, with sums log(e^a + e^b).
DrawToken in_log_space(const RowToDraw& row);
/// Draws a coin for the 16 likeliest tokens or the rest, then searches among these.
DrawToken head_and_tail(const RowToDraw& row);

}  // namespace fairdraw::suites
