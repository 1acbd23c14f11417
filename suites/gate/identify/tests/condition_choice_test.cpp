// Tests of the rule by which chance is excluded as the reason that all wrong rows have a condition.
#include "suites/gate/identify/condition_choice.h"

#include <gtest/gtest.h>

#include <bit>
#include <utility>
#include <vector>

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

// With n wrong units that have a condition and n right ones that lack it, the chance is 1 in
// "2n choose n": 1 / 70 for 4, and 1 / 3432 for 7. Three conditions on types share a ninth of
// 0.05, so that 0.0019 is the largest chance that decides.
TEST(ConditionChoice, MoreUnitsDecideAboutACondition) {
  const Held narrow =
      conditions_where([](const harness::Condition& one) { return one.text == "rows of 16 bits"; });
  ASSERT_EQ(narrow.count(), 1U);
  for (const auto& [pairs, decides] : {std::pair{4, false}, {7, true}}) {
    Stratum stratum = {of_parameters()};
    for (int i = 0; i < pairs; ++i) {
      stratum.units.push_back({{narrow}, true});
      stratum.units.push_back({{Held()}, false});
    }
    std::vector<Stratum> strata = {stratum};
    EXPECT_EQ(ConditionChoice(strata, ~Held(), {}).undecided(), decides ? Held() : narrow);
    // A wrong unit without the condition refutes it, and units that all have it tell nothing.
    strata.front().units.push_back({{Held()}, true});
    EXPECT_TRUE(ConditionChoice(strata, ~Held(), {}).undecided().none());
    strata.front().units.assign(3, {{narrow}, true});
    EXPECT_TRUE(ConditionChoice(strata, ~Held(), {}).undecided().none());
  }
}

}  // namespace
}  // namespace fairdraw::suites
