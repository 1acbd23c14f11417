// A test in two stages: a p-value that is small enough for a second look, and fresh draws that
// decide.
//
// A single look needs enough draws for both error rates at once: a level a, and a miss probability
// b. Two looks at sqrt(a) each, on independent draws, are wrong together with probability a, and
// each is cheaper. A right sampler needs the second look once in 10^6 cases. A p-value that is far
// below the level needs no second look: half of the level is reserved for this case.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Levels of one statistic in two stages: the case fails if p < at_once, or if two independent
/// looks both have p < each. Under the null the probability is at most at_once + each^2 = level.
struct TwoStages {
  explicit TwoStages(double level) : at_once(level / 2), each(std::sqrt(level / 2)) {}
  double at_once, each;
};

/// Miss probability that a statistic's design must reach at level TwoStages::each, because a fault
/// is missed if either of the two looks misses it.
inline constexpr double kFalsePassRateOfALook = kFalsePassRate / 2;

/// One statistic at one look.
struct Finding {
  std::string name;            ///< name of the statistic; the same in both looks
  double p_value = 1;          ///< valid: at most a with probability at most a
  double level = 0;            ///< the statistic's share of the case's budget
  std::string what;            ///< observation, "G = 812.1 over 31 cells after 100000 draws"
  bool never_at_once = false;  ///< needs a second look at any p-value
};

/// Judges the findings of the first look. If a finding is suspicious, calls `look(1)`, which makes
/// fresh draws from random words that look 0 did not use. Records the spent level of every
/// statistic, and fails the outcome or notes what to watch. A failure in `look` itself (a token
/// outside of the support) ends the judging.
void judge_in_two_stages(const std::function<std::vector<Finding>(int)>& look,
                         CheckOutcome& outcome);

/// Keeps the p-values as measures, NAME_p_value.
void note_p_values(const std::vector<Finding>& findings, CheckOutcome& outcome);

}  // namespace fairdraw::harness
