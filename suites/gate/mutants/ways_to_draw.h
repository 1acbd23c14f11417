// Ways to draw a token from a row: each exact in real arithmetic. In float64 a sum of 2^20 tokens
// is off by at most 2^20 * 2^-53 of it, and a uniform of 53 bits by 2^-53: no probability by more
// than 2^-32, which moves no count of 10^7 draws by more than 0.003.
#pragma once

#include "suites/gate/identify/profile_sampler.h"

namespace fairdraw::suites {

/// Argmax of log p + Gumbel noise: of blocks by their mass, then of the tokens of the first.
DrawToken gumbel_race(const RowToDraw& row);
/// The first of exponential clocks of rate p: of blocks, then of the tokens of the first.
DrawToken exponential_clocks(const RowToDraw& row);
/// Walker's table as Vose builds it: a column, and one of the two tokens in it.
DrawToken alias_table(const RowToDraw& row);
/// Draws from the row without its filters until a token stays; above a pivot, which a token that
/// goes raises to its own probability, and to the middle of what is left where nothing stays below.
DrawToken two_pivots(const RowToDraw& row);
/// Draws from the row without its filters until a token stays, 64 times; then from what stays.
DrawToken propose_and_accept(const RowToDraw& row);
/// The same with Walker's tables of both.
DrawToken alias_then_filters(const RowToDraw& row);
/// Inverse distribution function in order of falling probability, from the last id down, and in an
/// order of ids that has nothing in common with either.
DrawToken sorted_search(const RowToDraw& row);
DrawToken from_the_top(const RowToDraw& row);
DrawToken in_hashed_order(const RowToDraw& row);
/// Each in turn takes the place of what came before it with its share of the mass up to it: blocks,
/// then the tokens of the one that is left.
DrawToken reservoir(const RowToDraw& row);
/// Tokens within a factor of two of each other have one envelope: a group by its envelope, a token
/// of it uniformly, accepted with its part of the envelope, at least half.
DrawToken envelopes(const RowToDraw& row);
/// A segment of 1024 ids by its mass, and a token within it by another word.
DrawToken segments(const RowToDraw& row);
/// Half of the ids after half, each by the mass of its side and a word of its own.
DrawToken bisection(const RowToDraw& row);
/// Bits of a word, one after the other, until what they leave lies within one token.
DrawToken bit_by_bit(const RowToDraw& row);
/// Inverse distribution function of logarithms: sums by log(e^a + e^b).
DrawToken in_log_space(const RowToDraw& row);
/// A coin for the 16 likeliest tokens or the rest, then a search among those.
DrawToken head_and_tail(const RowToDraw& row);

}  // namespace fairdraw::suites
