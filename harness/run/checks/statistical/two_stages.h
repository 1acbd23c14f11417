// Screen and confirm: a p-value that is small enough to ask again, and the answer of fresh draws.
//
// To be missed with probability b at level a, one look needs draws for both rates at once. Two
// looks at sqrt(a) each, on independent draws, are wrong together with probability a, and each is
// cheaper: a right sampler makes the second one once in 10^6 cases. An overwhelming p-value needs
// no second look: it has half of the level to itself.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Levels of one statistic in two stages: red where p < at_once, or where both of two independent
/// looks have p < each. Under the null at most at_once + each^2 = level.
struct TwoStages {
  explicit TwoStages(double level) : at_once(level / 2), each(std::sqrt(level / 2)) {}
  double at_once, each;
};

/// What a twin's design must reach at level TwoStages::each: a fault is missed where one of the two
/// looks misses it.
inline constexpr double kFalsePassRateOfALook = kFalsePassRate / 2;

/// One statistic at one look.
struct Finding {
  std::string name;            ///< of the statistic: the same in both looks
  double p_value = 1;          ///< valid: at most a with probability at most a
  double level = 0;            ///< its share of the case's budget
  std::string what;            ///< "G = 812.1 over 31 cells after 100000 draws"
  bool never_at_once = false;  ///< always to be confirmed
};

/// Judges the findings of look 0; where one is suspicious, calls `look(1)`, which draws afresh,
/// from random words that look 0 did not use. Books every level, fails the outcome, or notes what
/// to watch. A failure in `look` itself (a token outside of the support) ends it.
void judge_in_two_stages(const std::function<std::vector<Finding>(int)>& look,
                         CheckOutcome& outcome);

/// Keeps the p-values as measures, NAME_p_value.
void note_p_values(const std::vector<Finding>& findings, CheckOutcome& outcome);

}  // namespace fairdraw::harness
