// How many draws mistakes take that are too small for a run, by the design of the case that would
// find them: computed before a draw is made, so that a report can say what may have passed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::harness {

/// Names of measures: each is followed by the name of the mistake. The number of draws is 0 where
/// not even 2^40 find it; the difference is that of the probability which the case counts.
inline constexpr const char* kDrawsToFind = "draws to find: ";
inline constexpr const char* kDifference = "difference: ";

/// A set of tokens that a case counts: its probability, and what a mistake makes of it.
struct CountedSet {
  double right = 0, mistaken = 0;
};

/// Draws with which an exact binomial test at `level` finds that a set has its mistaken
/// probability, but for a miss probability of kFalsePassRateOfALook; 0: not even 2^40 do. Of a test
/// in two looks: at the level of each.
std::uint64_t draws_to_find(const CountedSet& set, double level);

/// Adds both measures of a mistake: of the set that tells most of it with each draw. Of the case's
/// draws one in `rows` is of these sets.
void note_small_mistake(const std::string& mistake, std::span<const CountedSet> sets, double level,
                        std::size_t rows, CheckOutcome& outcome);

/// Distributions [vocab] with a mistake in them. `factor`: of all temperatures, where filters keep
/// the same tokens.
std::vector<double> at_other_temperature(std::span<const double> probability, double factor);
/// Tokens that share out 2^bits words in the order of their ids, as an inverse distribution
/// function of so few bits does.
std::vector<double> with_words_of(int bits, std::span<const double> probability);

}  // namespace fairdraw::harness
