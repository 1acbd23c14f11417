// Converts a check's data to the data of cards and pictures. These functions decide nothing.
// Numbers keep six digits, which is enough for every picture and halves the size of a report.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"
#include "harness/run/checks/exact/certain_distribution.h"

namespace fairdraw::harness {

/// Returns a value rounded to six significant digits.
double for_picture(double value);

/// Returns draws against the distribution by rank (up to 64 bins of at least some 25 draws), by id
/// (up to 64 bins, with the first and the last id in bins of their own, because ends may be lost)
/// and by lane (with the number of lanes, 8 to 256, for which some lane is off by the most standard
/// deviations; 32 if none is off by six).
std::vector<Profile> profiles_of(const CertainDistribution& distribution,
                                 const CertainCounts& drawn);

/// Compares values in (0, 1) with the uniform distribution on a grid, with the DKW band at `level`.
PitEcdf pit_ecdf(const std::string& name, std::vector<double> values, double level);

/// Returns the absolute value that a standard normal variable exceeds with probability `p_value`,
/// as one scale for statistics of different kinds. The score is at most 38, which is the limit of
/// double arithmetic.
double score_of(double p_value);

/// Returns the tokens around a token of a row, by decreasing logit: 12 tokens before it and 12
/// after it. The function `kept` returns the bits of the sampler's mask, and may be empty.
Boundary boundary_around(const Request& request, const reference::RealDistribution& distribution,
                         std::int64_t row, std::uint64_t reported_row, std::int64_t token,
                         const std::function<bool(std::int64_t)>& kept);

/// Returns the design of one statistic at 1/16, 1/8, ... 16 times the draws. The function `found`
/// returns the smallest discrepancy that a given number of draws finds.
Power power_of(const std::string& statistic, std::uint64_t cells, double level, double miss_rate,
               double declared, std::uint64_t draws,
               const std::function<double(std::uint64_t)>& found);

/// Keeps the statistic whose p-value is farthest below its level or, if no p-value is below,
/// closest to it.
void note_decisive(const std::string& statistic, double p_value, double level,
                   CheckOutcome& outcome);

/// Records the observed total variation distance with its interval, from the measures of
/// note_total_variation().
void note_effect(CheckOutcome& outcome);

/// Returns the observed probability of a set of tokens, with its Clopper-Pearson interval of 99 %.
Effect probability_effect(const std::string& set, std::uint64_t count, std::uint64_t draws,
                          double expected);

}  // namespace fairdraw::harness
