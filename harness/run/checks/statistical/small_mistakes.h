// Computes how many draws are needed to find mistakes that are too small for a run to find, by the
// design of the case that would find them. These numbers are computed before a draw is made, so
// that a report can say which mistakes may have passed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::harness {

/// The names of measures begin with one of these texts, followed by the name of the mistake. The
/// number of draws is 0 if not even 2^40 draws find the mistake. The difference is that of the
/// probability which the case counts.
inline constexpr const char* kDrawsToFind = "draws to find: ";
inline constexpr const char* kDifference = "difference: ";

/// A set of tokens that a case counts, with its right probability and its probability under a
/// mistake.
struct CountedSet {
  double right = 0, mistaken = 0;
};

/// Returns the number of draws with which an exact binomial test at `level` finds the set's
/// mistaken probability, with a miss probability of at most kFalsePassRateOfALook; 0 if not even
/// 2^40 draws find it. For a test in two looks, `level` is the level of each look.
std::uint64_t draws_to_find(const CountedSet& set, double level);

/// Adds both measures of a small mistake, for the set that has the most information per draw. One
/// in `rows` of the case's draws belongs to the sets of tokens.
void note_small_mistake(const std::string& mistake, std::span<const CountedSet> sets, double level,
                        std::size_t rows, CheckOutcome& outcome);

/// Returns the distribution [vocab] that results if all temperatures are multiplied by `factor`.
/// Precondition: the filters keep the same tokens.
std::vector<double> at_other_temperature(std::span<const double> probability, double factor);
/// Returns the distribution [vocab] that results if tokens share 2^bits random words in the order
/// of their ids, as for an inverse distribution function with so few bits.
std::vector<double> with_words_of(int bits, std::span<const double> probability);

}  // namespace fairdraw::harness
