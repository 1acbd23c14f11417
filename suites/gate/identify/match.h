// Whether a distribution can have given an observation.
#pragma once

#include <string>

#include "suites/gate/identify/identify.h"

namespace fairdraw::suites {

struct Match {
  std::string contradiction;  ///< empty: none
  bool unsaid = false;        ///< the distribution says nothing of this row
  bool open = false;          ///< the distribution leaves open what stays

  bool fits() const { return contradiction.empty(); }
};

/// Levels of one probe: `miss` bounds the probability that a token of the distribution was not
/// drawn, `tail` that a frequency is as far off.
struct MatchLevels {
  double miss = 0, tail = 0;
};

/// Probability below which a token is not looked for on its own.
inline constexpr double kWorthLookingFor = 0x1p-14;

/// The levels of each of the probes, by kIdentifyErrorRate.
MatchLevels match_levels();

/// Draws after which every token of probability `least` or more was seen, but with probability
/// `levels.miss`: (1 - least)^n <= miss / tokens, for `tokens` tokens.
std::uint64_t draws_to_see(double least, std::size_t tokens, const MatchLevels& levels);

Match match(const Observation& observation, const reference::RealDistribution& distribution);

}  // namespace fairdraw::suites
