// Tests of the rule by which chance is excluded as the reason that all wrong rows have a condition.
#include "suites/gate/identify/condition_choice.h"

#include <gtest/gtest.h>

#include <bit>

namespace fairdraw::suites {
namespace {

// Of all sets of `wrong` among some units, the share of those within the first `with` units is
// counted.
TEST(ConditionChoice, TheChanceIsTheShareOfSetsThatHaveTheCondition) {
  for (unsigned units = 1; units <= 8; ++units) {
    for (unsigned with = 0; with <= units; ++with) {
      for (unsigned wrong = 0; wrong <= units; ++wrong) {
        double sets = 0, within = 0;
        for (unsigned set = 0; set < 1U << units; ++set) {
          if (std::popcount(set) != static_cast<int>(wrong)) continue;
          ++sets;
          within += set >> with == 0 ? 1 : 0;
        }
        EXPECT_NEAR(chance_that_all_have(units, with, wrong), within / sets, 1e-12)
            << units << " " << with << " " << wrong;
      }
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
