// Tests of the causes that a failed run names for mistakes that show only under a condition.
#include "suites/gate/mutants/conditional_mutants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reports/report.h"
#include "suites/gate/mutants/blind_trial.h"

namespace fairdraw::suites {
namespace {

const Mutant& mutant_named(const std::string& name) {
  return *std::ranges::find(catalogue(), name, &Mutant::name);
}

/// Judges a mutant by the whole smoke suite, with further seeds if few rows show its mistake and
/// the seed has none of them.
MutantOutcome judged(const Mutant& mutant) {
  constexpr std::uint64_t kSeeds = 4;
  KillOptions options;
  options.causes = options.smoke_alone = options.whole_smoke = true;
  options.seed = 1;
  MutantOutcome outcome = run_kill_matrix({&mutant}, options, {}).mutants.front();
  while (!outcome.killed && options.seed < kSeeds) {
    ++options.seed;
    outcome = run_kill_matrix({&mutant}, options, {}).mutants.front();
  }
  return outcome;
}

TEST(ConditionalMutants, ConditionsThatTheMutantIsAboutAreLeftOut) {
  for (const ConditionalMutant& one : under_conditions(mutant_named("temperature-ignored"), 0)) {
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
  cause.conditions = {{"top_k", "rows with top_k"}};
  EXPECT_EQ(judge_first_sentence(mutant, {cause}), FirstSentence::right);
  // The condition that the mistake itself is about says nothing more.
  cause.conditions.push_back({"temperature", "rows at temperatures other than 1"});
  EXPECT_EQ(judge_first_sentence(mutant, {cause}), FirstSentence::right);
  cause.conditions = {{"top_k", "rows with top_k"}, {"dtype", "rows of 16 bits"}};
  EXPECT_EQ(judge_first_sentence(mutant, {cause}), FirstSentence::misleading);
  cause.conditions = {{"top_k", "rows with top_k 1"}};
  EXPECT_EQ(judge_first_sentence(mutant, {cause}), FirstSentence::misleading);
  cause.name = "boundary of the mask";  // fits the rows, and names no other mistake
  cause.conditions = {{"top_k", "rows with top_k"}};
  EXPECT_EQ(judge_first_sentence(mutant, {cause}), FirstSentence::place);
  cause.name = "logit bias: ignored";
  EXPECT_EQ(judge_first_sentence(mutant, {cause}), FirstSentence::misleading);
}

struct Planted {
  const char *mutant, *condition;
};

class FirstSentences : public testing::TestWithParam<Planted> {};

// The mutants of this test are not held out. Each takes tens of seconds, so that only the nightly
// run has all of them.
TEST_P(FirstSentences, SayDefectAndCondition) {
  const Planted& planted = GetParam();
  ASSERT_FALSE(is_held_out(planted.mutant));
  const std::vector<ConditionalMutant> all = under_conditions(mutant_named(planted.mutant), 0);
  const auto one = std::ranges::find(all, planted.condition, &ConditionalMutant::text);
  ASSERT_NE(one, all.end());
  const std::vector<harness::Cause> causes = judged(one->mutant).causes;
  ASSERT_FALSE(causes.empty());
  EXPECT_EQ(judge_first_sentence(*one, causes), FirstSentence::right)
      << causes.front().text.sentence;
}

INSTANTIATE_TEST_SUITE_P(
    Tuned, FirstSentences,
    testing::Values(Planted{"min-p-before-temperature", "rows 1, 3, 5, ... of a call"},
                    // It shows if a call has processing, whether or not a step is on.
                    Planted{"p-one-percent", "calls with logits processing"}),
    [](const testing::TestParamInfo<Planted>& of) { return std::to_string(of.index); });

INSTANTIATE_TEST_SUITE_P(
    EveryNight, FirstSentences,
    testing::Values(
        // Few cases were judged, and few of these cases have small vocabularies.
        Planted{"min-p-before-temperature", "vocabularies of more than 200 tokens"},
        // Its cause, a dependence on other requests, already says that calls have several.
        Planted{"verify-parameters-of-the-next", "vocabularies of more than 200 tokens"},
        // The case that finds it is of one type of 16 bits, and no case says that the other is
        // right.
        Planted{"ties-at-k-dropped", "rows of 16 bits"},
        // Its failed cases have no rows with repeated ids in small calls.
        Planted{"repetition-by-count", "rows at temperatures other than 1"},
        // The single case that finds it is one of a running batch.
        Planted{"dry-allows-one-more", "rows of 16 bits"},
        // Reported values are wrong in cases of processing, whose tokens are right.
        Planted{"processed-logprobs-of-the-prompt", "rows 0, 3, 6, ... of a call"},
        // Only the cases of processing have padding in calls with it.
        Planted{"tokens-row-behind-padding-is-greedy", "calls with logits processing"},
        // A single case finds it.
        Planted{"slot-keeps-processing", "vocabularies of more than 200 tokens"},
        // The case that finds it has a small vocabulary, so that few smaller ones are right.
        Planted{"mark-key-by-row", "vocabularies of more than 200 tokens"},
        // Some of its cases of processing name a step of processing by chance.
        Planted{"attempts-are-later-offsets", "rows at temperatures other than 1"},
        // No case repeats operations, or reported values, in calls of other numbers of rows.
        Planted{"operation-temperature-ignored", "rows 1, 3, 5, ... of a call"},
        Planted{"logprobs-after-filters", "calls of more than 4 rows"}),
    [](const testing::TestParamInfo<Planted>& of) { return std::to_string(of.index); });

TEST(ConditionalMutants, AMistakeThatShowsEverywhereHasNoCondition) {
  const MutantOutcome outcome = judged(mutant_named("p-one-percent"));
  ASSERT_FALSE(outcome.causes.empty());
  EXPECT_TRUE(outcome.causes.front().conditions.empty()) << outcome.causes.front().text.sentence;
  // A report read from a file ranks causes in the same order as the run.
  const harness::RunRecord read = reports::from_json(reports::to_json(outcome.record));
  EXPECT_EQ(harness::ranked_causes(read).front().text.sentence,
            outcome.causes.front().text.sentence);
}

}  // namespace
}  // namespace fairdraw::suites
