// The tests cover the blind trial of causes, with mutants on which the rules were never tuned.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "suites/gate/mutants/blind_trial.h"
#include "suites/gate/mutants/cause_classes.h"

namespace fairdraw::suites {
namespace {

TEST(HeldOut, IsEveryThirdMutantByItsName) {
  static_assert(is_held_out("topp-drops-crossing") == (crc32("topp-drops-crossing") % 3 == 0));
  const auto held_out = static_cast<std::size_t>(std::ranges::count_if(
      catalogue(), [](const Mutant& mutant) { return is_held_out(mutant.name); }));
  // The count must be within five standard deviations of a binomial count with probability 1/3.
  const double all = static_cast<double>(catalogue().size());
  EXPECT_NEAR(static_cast<double>(held_out), all / 3, 5 * std::sqrt(all * 2 / 9));
}

TEST(CausesTrial, HasThirtyMutantsOfWhichNoneIsChosen) {
  const std::vector<const Mutant*> trial = trial_mutants();
  ASSERT_EQ(trial.size(), kTrialMutants);
  const std::uint32_t first = crc32(trial.front()->name), last = crc32(trial.back()->name);
  for (const Mutant& mutant : catalogue()) {
    const bool is_in = std::ranges::find(trial, &mutant) != trial.end();
    const std::uint32_t hash = crc32(mutant.name);
    const bool may_be = is_held_out(mutant.name) && mutant.unreachable_reason.empty();
    const bool belongs = may_be && hash >= first && hash <= last;
    EXPECT_EQ(is_in, belongs) << mutant.name;
    // Causes may be declared only for mutants of the trial, so that no other answer is adapted to
    // the results.
    EXPECT_TRUE((may_be && hash <= last) || declared_causes(mutant.name).empty()) << mutant.name;
  }
}

TEST(CausesTrial, TheFirstCauseIsRightForTwentyFourOfThirty) {
  KillOptions options;
  options.seed = 4;
  options.causes = true;
  options.conditions = false;  // conditions are off, because conditional_mutants_test.cpp tests
                               // them
  std::size_t right = 0;
  std::string wrong;
  for (const MutantOutcome& outcome : run_kill_matrix(trial_mutants(), options, {}).mutants) {
    const bool named =
        !outcome.causes.empty() && is_right(outcome.causes.front().name, *outcome.mutant);
    right += named ? 1 : 0;
    if (named) continue;
    wrong += "\n  " + outcome.mutant->name + ": " +
             (outcome.causes.empty() ? "no cause" : outcome.causes.front().name);
  }
  EXPECT_GE(right, kTrialNamed) << "wrong:" << wrong;
}

}  // namespace
}  // namespace fairdraw::suites
