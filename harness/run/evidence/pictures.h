// From what a check saw to what cards and pictures are drawn from. Nothing here decides; numbers
// keep six digits, which no picture exceeds and which halve a report.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"
#include "harness/run/checks/exact/certain_distribution.h"

namespace fairdraw::harness {

/// To six significant digits.
double for_picture(double value);

/// Draws against the distribution by rank (up to 64 bins of some 25 draws or more), by id (up to 64
/// bins; the first and the last id alone, where ends are lost) and by lane (of the number of lanes,
/// 8 to 256, at which some lane is off by most standard deviations; 32 where none is by six).
std::vector<Profile> profiles_of(const CertainDistribution& distribution,
                                 const CertainCounts& drawn);

/// Values in (0, 1) against the uniform distribution on a grid, with the DKW band of `level`.
PitEcdf pit_ecdf(const std::string& name, std::vector<double> values, double level);

/// The absolute value that a standard normal exceeds with probability `p_value`: one scale for
/// statistics of different kinds. At most 38, where double arithmetic ends.
double score_of(double p_value);

/// Tokens around a token of a row, by falling logit: 12 before it and 12 after it. `kept` says
/// what the sampler's mask says, and may be empty.
Boundary boundary_around(const Request& request, const reference::RealDistribution& distribution,
                         std::int64_t row, std::uint64_t reported_row, std::int64_t token,
                         const std::function<bool(std::int64_t)>& kept);

/// The design of one statistic at 1/16, 1/8, ... 16 times the draws: `found` gives the smallest
/// discrepancy of a number of draws.
Power power_of(const std::string& statistic, std::uint64_t cells, double level, double miss_rate,
               double declared, std::uint64_t draws,
               const std::function<double(std::uint64_t)>& found);

/// Keeps the statistic that is farthest below its level, or nearest to it.
void note_decisive(const std::string& statistic, double p_value, double level,
                   CheckOutcome& outcome);

/// The observed total variation with its interval, as note_total_variation() left them.
void note_effect(CheckOutcome& outcome);

/// Probability of a set of tokens, observed, with its Clopper-Pearson interval of 99 %.
Effect probability_effect(const std::string& set, std::uint64_t count, std::uint64_t draws,
                          double expected);

}  // namespace fairdraw::harness
