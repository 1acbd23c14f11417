// Makes a test in two stages: a small p-value leads to a second look, and new draws decide.
//
// A single look would need enough draws for both error rates at once: a level a, and a miss
// probability b. Two looks at level sqrt(a) each, on independent draws, are both wrong with
// probability a, and each look is cheaper. A right sampler needs the second look once in 10^6
// cases. A p-value that is far below the level needs no second look; half of the level is reserved
// for this case.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// The levels of one statistic in two stages: the case fails if p < at_once, or if two independent
/// looks both have p < each. Under the null hypothesis the probability of this is at most at_once +
/// each^2 = level.
struct TwoStages {
  explicit TwoStages(double level) : at_once(level / 2), each(std::sqrt(level / 2)) {}
  double at_once, each;
};

/// The miss probability that a statistic's design must reach at level TwoStages::each; it is half
/// of the total, because a fault is missed if either of the two looks misses it.
inline constexpr double kFalsePassRateOfALook = kFalsePassRate / 2;

/// The result of one statistic at one look.
struct Finding {
  std::string name;            ///< name of the statistic, which is the same in both looks
  double p_value = 1;          ///< valid p-value: at most a with probability at most a
  double level = 0;            ///< the statistic's share of the case's budget
  std::string what;            ///< observation: "G = 812.1 over 31 cells after 100000 draws"
  bool never_at_once = false;  ///< true if any p-value needs a second look
};

/// Judges the findings of the first look. If a finding is suspicious, the function calls `look(1)`,
/// which makes new draws from random words that look 0 did not use. The function records the spent
/// level of every statistic, and fails the outcome or records what to watch. A failure in `look`
/// itself (a token outside of the support) ends the judging.
void judge_in_two_stages(const std::function<std::vector<Finding>(int)>& look,
                         CheckOutcome& outcome);

/// Stores the p-values as measures with the name NAME_p_value.
void note_p_values(const std::vector<Finding>& findings, CheckOutcome& outcome);

}  // namespace fairdraw::harness
