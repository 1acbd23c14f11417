// Numbers of draws needed to find mistakes that are too small for a run, by the design of the case
// that would find them. These numbers are computed before a draw is made, so that a report can say
// which mistakes may have passed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::harness {

/// Prefixes of the names of measures, each followed by the name of the mistake. The number of draws
/// is 0 if not even 2^40 draws find the mistake. The difference is that of the probability which
/// the case counts.
inline constexpr const char* kDrawsToFind = "draws to find: ";
inline constexpr const char* kDifference = "difference: ";

/// A set of tokens that a case counts: its right probability, and that under a mistake.
struct CountedSet {
  double right = 0, mistaken = 0;
};

/// Returns the number of draws with which an exact binomial test at `level` finds the set's
/// mistaken probability, with a miss probability of at most kFalsePassRateOfALook; 0 if not even
/// 2^40 draws do. For a test in two looks, `level` is that of each look.
std::uint64_t draws_to_find(const CountedSet& set, double level);

/// Adds both measures of a small mistake, for the set with the most information per draw. One in
/// `rows` of the case's draws belongs to the sets of tokens.
void note_small_mistake(const std::string& mistake, std::span<const CountedSet> sets, double level,
                        std::size_t rows, CheckOutcome& outcome);

/// Returns the distribution [vocab] if all temperatures were multiplied by `factor`. Precondition:
/// filters keep the same tokens.
std::vector<double> at_other_temperature(std::span<const double> probability, double factor);
/// Returns the distribution [vocab] if tokens share 2^bits words in the order of their ids, as an
/// inverse distribution function of so few bits does.
std::vector<double> with_words_of(int bits, std::span<const double> probability);

}  // namespace fairdraw::harness
