// Comparison of an observation with a distribution.
#pragma once

#include <string>

#include "suites/gate/identify/identify.h"

namespace fairdraw::suites {

struct Match {
  std::string contradiction;  ///< empty: none
  bool unsaid = false;        ///< whether the distribution is undefined for this row
  bool open = false;          ///< whether the distribution leaves open which tokens are kept

  bool fits() const { return contradiction.empty(); }
};

/// Levels of one probe: `miss` bounds the probability that some token of the distribution was not
/// drawn, `tail` the probability of such a deviation of a frequency.
struct MatchLevels {
  double miss = 0, tail = 0;
};

/// Probability below which a single token is not looked for.
inline constexpr double kWorthLookingFor = 0x1p-14;

/// Returns the levels of each probe, computed from kIdentifyErrorRate.
MatchLevels match_levels();

/// Returns the number of draws after which every token of probability at least `least` was drawn,
/// except with probability `levels.miss`: (1 - least)^n <= miss / tokens, for `tokens` tokens.
std::uint64_t draws_to_see(double least, std::size_t tokens, const MatchLevels& levels);

Match match(const Observation& observation, const reference::RealDistribution& distribution);

}  // namespace fairdraw::suites
