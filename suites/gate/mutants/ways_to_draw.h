// Ways to draw a token from a row, each of which is exact in real arithmetic. In float64, a sum
// over 2^20 tokens has a relative error of at most 2^20 * 2^-53, and a uniform number of 53 bits an
// error of 2^-53. No probability is off by more than 2^-32, which changes no count among 10^7 draws
// by more than 0.003.
#pragma once

#include "suites/gate/identify/profile_sampler.h"

namespace fairdraw::suites {

/// Draws the argmax of log p plus Gumbel noise: first a block by its mass, then a token of this
/// block.
DrawToken gumbel_race(const RowToDraw& row);
/// Draws the token whose exponential clock of rate p rings first: first a block, then a token of
/// this block.
DrawToken exponential_clocks(const RowToDraw& row);
/// Draws from Walker's table, built by Vose's method: first a column, then one of its two tokens.
DrawToken alias_table(const RowToDraw& row);
/// Draws from the part of the unfiltered row that is above a pivot, until a kept token is drawn. A
/// rejected token raises the pivot to its own probability, or to the middle between that and the
/// largest probability if no kept token lies below the middle.
DrawToken two_pivots(const RowToDraw& row);
/// Draws from the unfiltered row until a kept token is drawn, but at most 64 times; then draws from
/// the kept tokens.
DrawToken propose_and_accept(const RowToDraw& row);
/// Draws by proposals until a kept token is drawn, with Walker's tables of both distributions.
DrawToken alias_then_filters(const RowToDraw& row);
/// The functions below draw by the inverse distribution function: in the order of decreasing
/// probability, from the last id down, and in a hashed order of ids.
DrawToken sorted_search(const RowToDraw& row);
DrawToken from_the_top(const RowToDraw& row);
DrawToken in_hashed_order(const RowToDraw& row);
/// Draws by reservoir sampling: each element replaces the previous choice with a probability that
/// is its mass divided by the mass so far. The reservoir first chooses a block, and then a token of
/// this block.
DrawToken reservoir(const RowToDraw& row);
/// Draws by envelopes, which tokens within a factor of two share. First a group is drawn by its
/// envelope, then a uniform token of the group, which is accepted with the probability p over the
/// envelope, at least one half.
DrawToken envelopes(const RowToDraw& row);
/// Draws a segment of 1024 ids by its mass, and then a token of the segment with another word.
DrawToken segments(const RowToDraw& row);
/// Draws by bisection of the ids: chooses one of two halves by its mass, with a random word for
/// each choice.
DrawToken bisection(const RowToDraw& row);
/// Draws bit by bit until the remaining interval lies inside that of one token.
DrawToken bit_by_bit(const RowToDraw& row);
/// Draws by the inverse distribution function in log space, with sums log(e^a + e^b).
DrawToken in_log_space(const RowToDraw& row);
/// Draws whether the token is among the 16 likeliest tokens or among the rest, and then searches
/// there.
DrawToken head_and_tail(const RowToDraw& row);

}  // namespace fairdraw::suites
