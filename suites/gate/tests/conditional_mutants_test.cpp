// Tests of the causes that a failed run names for mistakes that show only under a condition.
#include "suites/gate/mutants/conditional_mutants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reports/report.h"

namespace fairdraw::suites {
namespace {

const Mutant& mutant_named(const std::string& name) {
  return *std::ranges::find(catalogue(), name, &Mutant::name);
}

MutantOutcome judged(const Mutant& mutant) {
  KillOptions options;
  options.causes = options.smoke_alone = true;
  options.seed = 1;
  return run_kill_matrix({&mutant}, options, {}).mutants.front();
}

TEST(ConditionalMutants, ConditionsThatTheMutantIsAboutAreLeftOut) {
  for (const ConditionalMutant& one : under_conditions(mutant_named("temperature-ignored"))) {
    EXPECT_NE(one.subject, "temperature");
    EXPECT_NE(one.mutant.name, one.of->name);
  }
}

// Sentences with the defect alone, the condition alone, and a wrong condition are told apart.
TEST(ConditionalMutants, AFirstSentenceIsRightWithDefectAndCondition) {
  ConditionalMutant mutant = {&mutant_named("temperature-ignored"), {}, "top_k", "rows with top_k"};
  harness::Cause cause;
  EXPECT_EQ(judge_first_sentence(mutant, {}), FirstSentence::none);
  cause.name = "temperature: ignored";
  EXPECT_EQ(judge_first_sentence(mutant, {cause}), FirstSentence::place);
  cause.condition = {"top_k", "rows with top_k"};
  EXPECT_EQ(judge_first_sentence(mutant, {cause}), FirstSentence::right);
  cause.condition = {"top_k", "rows with top_k 1"};
  EXPECT_EQ(judge_first_sentence(mutant, {cause}), FirstSentence::misleading);
  cause.name = "logit bias: ignored";
  EXPECT_EQ(judge_first_sentence(mutant, {cause}), FirstSentence::misleading);
}

// The mutant of this test is not held out.
TEST(ConditionalMutants, TheFirstSentenceSaysDefectAndCondition) {
  const std::vector<ConditionalMutant> all =
      under_conditions(mutant_named("min-p-before-temperature"));
  const auto one = std::ranges::find(all, "rows 1, 3, 5, ... of a call", &ConditionalMutant::text);
  ASSERT_NE(one, all.end());
  const std::vector<harness::Cause> causes = judged(one->mutant).causes;
  ASSERT_FALSE(causes.empty());
  EXPECT_EQ(judge_first_sentence(*one, causes), FirstSentence::right)
      << causes.front().text.sentence;
}

TEST(ConditionalMutants, AMistakeThatShowsEverywhereHasNoCondition) {
  const MutantOutcome outcome = judged(mutant_named("p-one-percent"));
  ASSERT_FALSE(outcome.causes.empty());
  EXPECT_EQ(outcome.causes.front().condition.text, "");
  // A report read from a file ranks causes in the same order as the run.
  const harness::RunRecord read = reports::from_json(reports::to_json(outcome.record));
  EXPECT_EQ(harness::ranked_causes(read).front().text.sentence,
            outcome.causes.front().text.sentence);
}

}  // namespace
}  // namespace fairdraw::suites
