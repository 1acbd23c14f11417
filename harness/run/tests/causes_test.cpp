// Tests the ranking of causes on records that the tests write.
#include "harness/run/evidence/causes.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace fairdraw::harness {
namespace {

CaseRecord failed(std::string id, std::string check, std::vector<Suspect> hints,
                  std::string filter = "mixed") {
  CaseRecord record;
  record.id = std::move(id);
  record.check = std::move(check);
  record.sampler = "s";
  record.filter = std::move(filter);
  record.verdict = Verdict::failed;
  record.evidence.suspects = std::move(hints);
  return record;
}

RunRecord run_of(std::vector<CaseRecord> cases) {
  RunRecord record;
  record.samplers = {{"s", "", "fairdraw"}};
  record.cases = std::move(cases);
  return record;
}

std::vector<std::string> names_of(const RunRecord& record) {
  std::vector<std::string> names;
  for (const Cause& cause : ranked_causes(record)) names.push_back(cause.name);
  return names;
}

using Names = std::vector<std::string>;
using Places = std::vector<std::size_t>;

// A wrong mask names the mistake. The mistake's consequences (draws outside of the support, a
// distribution without its tail) are symptoms of the mistake, and not causes of their own.
TEST(RankedCauses, SymptomsBelongToTheCauseThatTheyFollowFrom) {
  const RunRecord record =
      run_of({failed("a", "bets", {{"truncation: the tail is cut off", ""}}, "top_p"),
              failed("b", "mask", {{"top_p: ignored", "why"}}),
              failed("c", "support", {{"out of support", ""}}),
              failed("d", "logprobs", {{"log-probabilities: values", ""}})});
  const std::vector<Cause> causes = ranked_causes(record);
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0].name, "top_p: ignored");
  EXPECT_EQ(causes[0].reason, "why");
  EXPECT_EQ(causes[0].text.sentence, "top_p is ignored.");
  EXPECT_EQ(causes[0].cases, (Places{1, 0, 2, 3}));  // the case that names the cause is first
}

// The name of the cause "ties" contains no filter, but ties only matter in rows with this filter.
TEST(RankedCauses, TiesAreSaidToBeOfAFilter) {
  RunRecord record =
      run_of({failed("b", "mask", {{"definition of ties with the k-th largest: lowest_id", ""}})});
  record.samplers.front().conditions = {{"top_k", "rows with top_k"}, {"dtype", "rows of 16 bits"}};
  const std::vector<Cause> causes = ranked_causes(record);
  ASSERT_EQ(causes.size(), 1U);
  ASSERT_EQ(causes[0].conditions.size(), 1U);
  EXPECT_EQ(causes[0].conditions[0].text, "rows of 16 bits");
  EXPECT_TRUE(is_said_by("definition of ties at the end of the nucleus: lowest_id",
                         {"top_p", "rows with top_p"}));
  EXPECT_FALSE(is_said_by("definition of ties with the k-th largest: lowest_id",
                          {"top_p", "rows with top_p"}));
}

// Conditions that repeated calls found are a part of the sentence, unless the name of the cause
// says them.
TEST(RankedCauses, TheFirstCauseSaysInWhichRowsItShows) {
  RunRecord record = run_of({failed("b", "mask", {{"top_p: ignored", "why"}})});
  record.samplers.front().conditions = {{"top_p", "rows with top_p"}, {"top_k", "rows with top_k"}};
  const std::vector<Cause> causes = ranked_causes(record);
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0].name, "top_p: ignored");
  ASSERT_EQ(causes[0].conditions.size(), 1U);
  EXPECT_EQ(causes[0].conditions[0].text, "rows with top_k");
  EXPECT_EQ(causes[0].text.sentence, "Only in rows with top_k: top_p is ignored.");
}

// The headline names a mistake only if at most 5 % of the failed cases speak against the mistake:
// here 1 of 20, but not 1 of 19.
TEST(RankedCauses, ACauseThatExplainsTooLittleIsDoubtful) {
  std::vector<CaseRecord> cases;
  for (int i = 0; i < 19; ++i) cases.push_back(failed("a", "mask", {{"min_p: ignored", ""}}));
  cases.push_back(failed("b", "support", {{"top_k: ignored", ""}}));
  // A symptom that the mistake does not explain does not speak against it either.
  const CaseRecord symptom = failed("c", "status", {{"bad values", ""}});
  RunRecord record = run_of(cases);
  EXPECT_FALSE(ranked_causes(record).front().is_doubtful);
  record.cases.erase(record.cases.begin());
  Cause first = ranked_causes(record).front();
  EXPECT_TRUE(first.is_doubtful);
  EXPECT_EQ(first.name, "min_p: ignored");
  EXPECT_EQ(first.text.sentence, "No known mistake explains this.");
  EXPECT_TRUE(first.text.change.starts_with(
      "The nearest mistake does not explain 1 of 19 failed cases: min_p is ignored."))
      << first.text.change;
  record.cases.push_back(symptom);
  EXPECT_FALSE(ranked_causes(record).front().is_doubtful);  // 1 of 20
  record.cases.pop_back();
  record.samplers.front().conditions = {{"top_k", "rows with top_k"}, {"dtype", "rows of 16 bits"}};
  first = ranked_causes(record).front();
  EXPECT_EQ(first.text.sentence,
            "No known mistake explains this; the wrong rows share: rows with top_k and rows of 16 "
            "bits.");
  // The name of a mistake that is not said implies nothing.
  record.samplers.front().conditions = {{"min_p", "rows with min_p"}};
  EXPECT_EQ(ranked_causes(record).front().text.sentence,
            "No known mistake explains this; the wrong rows share: rows with min_p.");
}

// A mistake in only some rows of a call makes results depend on the call, and sequences of calls
// show every mistake.
TEST(RankedCauses, AMistakeInSomeRowsOfCallsExplainsDependenceOnCalls) {
  RunRecord record = run_of({failed("a", "mask", {{"top_k: ignored", ""}}),
                             failed("b", "sequences", {{"batch dependence or state", ""}}),
                             failed("c", "replay", {{"batch dependence or state", ""}})});
  EXPECT_EQ(ranked_causes(record).front().cases, (Places{0, 1}));
  record.samplers.front().conditions = {{"batch", "calls of more than 4 rows"}};
  const std::vector<Cause> causes = ranked_causes(record);
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0].cases, (Places{0, 1, 2}));
  EXPECT_EQ(causes[0].text.sentence, "Only in calls of more than 4 rows: top_k is ignored.");
}

// Reported values resemble other mistakes by chance, and so do not refute the first cause. Tokens
// that do refute it.
TEST(RankedCauses, ReportedValuesDoNotRefuteTheFirstCause) {
  const CaseRecord first = failed("a", "processing", {{"repetition penalty", ""}});
  const Suspect other = {"temperature: 1 % smaller", ""};
  const CaseRecord reported = failed("b/processed", "logprobs", {other});
  const CaseRecord tokens = failed("b/processed", "sequences", {other});
  EXPECT_FALSE(ranked_causes(run_of({first, first, first, reported})).front().is_doubtful);
  EXPECT_TRUE(ranked_causes(run_of({first, first, first, tokens})).front().is_doubtful);
}

// Checks of drafts name a mistake and the dependence on the batch by one cause.
TEST(RankedCauses, AConditionOnCallsIsNoMistakeOfDrafts) {
  const CaseRecord depends =
      failed("a", "verify", {{"speculative decoding: a request depends on its batch", ""}});
  const CaseRecord mistake =
      failed("b", "verify_law", {{"speculative decoding: the bonus token", ""}});
  RunRecord record = run_of({depends, depends, mistake});
  EXPECT_EQ(names_of(record).front(), depends.evidence.suspects.front().bug);
  record.samplers.front().conditions = {{"row", "rows 1, 3, 5, ... of a call"}};
  EXPECT_EQ(names_of(record).front(), mistake.evidence.suspects.front().bug);
  // If no case names a mistake, the dependence is all that is known.
  RunRecord without = run_of({depends, depends});
  without.samplers.front().conditions = record.samplers.front().conditions;
  EXPECT_EQ(names_of(without).front(), depends.evidence.suspects.front().bug);
}

// A row that gets the parameters of another row resembles other mistakes in some cases, and is
// right in calls of one row.
TEST(RankedCauses, OnlyAMistakeThatMostCasesOfACheckNameExplainsDependenceOnCalls) {
  const std::vector<Suspect> both = {{"batch dependence", ""}, {"top_k: ignored", ""}};
  RunRecord record =
      run_of({failed("a", "mask", both), failed("b", "mask", {{"batch dependence", ""}}),
              failed("c", "mask", {{"batch dependence", ""}})});
  record.samplers.front().conditions = {{"batch", "calls of more than 1 row"}};
  EXPECT_EQ(names_of(record).front(), "batch dependence");  // 1 of 3 cases names top_k
  record.cases[1].evidence.suspects = both;
  EXPECT_EQ(names_of(record).front(), "top_k: ignored");  // 2 of 3
}

TEST(RankedCauses, ARowThatIsWrongAloneDependsOnNoOther) {
  std::vector<CaseRecord> cases = {failed("a", "batches", {{"batch dependence", ""}}),
                                   failed("b", "mask", {{"mask: too few tokens", ""}}),
                                   failed("c", "tokens", {{"batch dependence", ""}})};
  EXPECT_EQ(names_of(run_of(cases)).front(), "batch dependence");
  cases.front().message = "4 draws: a batch of 1 rows: row 0: support size 12, expected 13";
  EXPECT_EQ(names_of(run_of(cases)).front(), "mask: too few tokens");
}

// A cause in a filter does not explain cases that do not use this filter.
TEST(RankedCauses, ACauseExplainsNoCaseInWhichItCannotShow) {
  EXPECT_EQ(
      names_of(run_of({failed("a", "mask", {{"top_p: ignored", ""}}),
                       failed("b", "bets", {{"truncation: the tail is cut off", ""}}, "top_k"),
                       failed("c", "mask", {{"top_p: ignored", ""}})})),
      (Names{"top_p: ignored", "truncation: the tail is cut off"}));
  // A penalty does not explain rows without a penalty.
  EXPECT_EQ(names_of(run_of({failed("a", "processing", {{"repetition penalty", ""}}),
                             failed("b", "support", {{"out of support", ""}})}))
                .size(),
            2U);
}

// Rows of padding that give tokens do not explain other bad rows that give tokens, while a mix-up
// of rows may.
TEST(RankedCauses, PaddingDoesNotExplainOtherBadRows) {
  const auto judged = [](const char* of_batches) {
    return names_of(run_of({failed("a", "status", {{"bad values", ""}}),
                            failed("b", "status", {{"bad values", ""}}),
                            failed("c", "processing", {{"bad values", ""}}),
                            failed("d", "support", {{of_batches, ""}})}));
  };
  EXPECT_EQ(judged("batches: rows of padding"), (Names{"bad values", "batches: rows of padding"}));
  EXPECT_EQ(judged("batches: indices"), Names{"batches: indices"});
}

TEST(RankedCauses, WhatExplainsMoreFailuresComesFirst) {
  const RunRecord record = run_of({failed("a", "mask", {{"top_k: ignored", ""}}),
                                   failed("b", "mask", {{"temperature: ignored", ""}}),
                                   failed("c", "mask", {{"temperature: ignored", ""}}),
                                   failed("d", "mask", {{"temperature: 1 % larger", ""}})});
  EXPECT_EQ(names_of(record), (Names{"temperature: ignored", "top_k: ignored"}));
  EXPECT_EQ(ranked_causes(record)[0].cases.size(), 3U);  // the third is case d
}

// Three cases of one check are more alike than one case in each of three checks.
TEST(RankedCauses, ManyCasesOfOneCheckDoNotOutvoteSeveralChecks) {
  EXPECT_EQ(names_of(run_of({failed("a", "metamorphic", {{"shapes and batches", ""}}),
                             failed("b", "metamorphic", {{"shapes and batches", ""}}),
                             failed("c", "metamorphic", {{"shapes and batches", ""}}),
                             failed("d", "metamorphic", {{"shapes and batches", ""}}),
                             failed("e", "mask", {{"top_k: ignored", ""}}),
                             failed("f", "processing", {{"top_k: ignored", ""}})}))
                .front(),
            "top_k: ignored");
}

// A case may name several mistakes that explain it equally well. The mistake that all cases name is
// likelier than the one that a case names first.
TEST(RankedCauses, TheMistakeThatAllCasesNameComesFirst) {
  const Suspect first = {"temperature: ignored", ""};
  const Suspect later = {"min_p: measured before the temperature", ""};
  const RunRecord record =
      run_of({failed("a", "mask", {first, later}), failed("b", "mask", {first, later}),
              failed("c", "mask", {first, later}), failed("d", "mask", {later})});
  EXPECT_EQ(names_of(record), Names{later.bug});
  EXPECT_FALSE(ranked_causes(record).front().is_doubtful);
}

// A mix-up of rows that shows without processing looks like some step of processing with it. If it
// shows in no other rows, the step may be at fault.
TEST(RankedCauses, AMixUpOfRowsExplainsStepsOfProcessing) {
  const CaseRecord step = failed("a", "processing", {{"frequency penalty", ""}});
  const CaseRecord plain = failed("b", "batches", {{"batch dependence", ""}});
  const CaseRecord processed = failed("c/processed", "batches", {{"batch dependence", ""}});
  const Cause explained = ranked_causes(run_of({plain, plain, plain, step})).front();
  EXPECT_EQ(explained.name, "batch dependence");
  EXPECT_FALSE(explained.is_doubtful);
  EXPECT_EQ(names_of(run_of({processed, processed, processed, step})).front(), "frequency penalty");
}

// A row with another mistake may be right without a step of processing by chance.
TEST(RankedCauses, AStepOfProcessingIsAtFaultWhereHalfOfTheCasesNameIt) {
  const CaseRecord named = failed("a", "processing", {{"frequency penalty", ""}});
  const CaseRecord other = failed("b", "processing", {{"processing", ""}});
  EXPECT_EQ(names_of(run_of({named, other})).front(), "frequency penalty");
  EXPECT_EQ(names_of(run_of({named, other, other})).front(), "processing");
}

// A sampler that also fails rows without a bitmask does not merely misread bitmasks.
TEST(RankedCauses, ABitmaskIsAtFaultWhereRowsWithoutOneAreRight) {
  std::vector<CaseRecord> cases = {
      failed("support/banned", "support", {{"bitmask: a banned token is drawn", ""}})};
  EXPECT_EQ(names_of(run_of(cases)), (Names{"bitmask: a banned token is drawn"}));
  cases.push_back(failed("mask", "mask", {{"mask: too many tokens", ""}}));
  EXPECT_EQ(names_of(run_of(cases)).front(), "mask: too many tokens");
}

TEST(RankedCauses, OnlyFailedCasesHaveACause) {
  RunRecord record = run_of({failed("a", "mask", {{"top_k: ignored", ""}})});
  record.cases[0].verdict = Verdict::error;
  EXPECT_TRUE(ranked_causes(record).empty());
  record.cases[0].verdict = Verdict::passed;
  EXPECT_TRUE(ranked_causes(record).empty());
  EXPECT_TRUE(names_of(run_of({failed("a", "mask", {})})).empty());
}

TEST(RankedCauses, OfSeveralSamplersAreOneWhereTheyHaveOneName) {
  RunRecord record = run_of({failed("a", "mask", {{"top_k: ignored", ""}}),
                             failed("a", "mask", {{"top_k: one more", ""}}),
                             failed("a", "mask", {{"min_p: ignored", ""}})});
  record.cases[1].sampler = record.cases[2].sampler = "t";
  record.samplers.push_back({"t", "", "hf"});
  const std::vector<Cause> causes = ranked_causes(record);
  ASSERT_EQ(causes.size(), 2U);
  EXPECT_EQ(causes[0].cases, (Places{0, 1}));
  EXPECT_EQ(causes[1].name, "min_p: ignored");
}

// --- What `identify` saw -------------------------------------------------------------------------

const char* const kInclusive = "definition of mass exactly at top_p: inclusive_mass_at_most_p";
const char* const kAtMost = "definition of mass exactly at top_p: mass_above_at_most_p";

TEST(RankedCauses, ARunAndIdentifyDoNotDisagree) {
  RunRecord record = run_of({failed("a", "mask", {{kAtMost, ""}, {"top_p: 1 % larger", ""}})});
  EXPECT_EQ(names_of(record).front(), kAtMost);
  // The command `identify` found another value, which is then named.
  record.samplers[0].seen = {
      "hf", {{"mass exactly at top_p", "mass_above_below_p", {"inclusive_mass_at_most_p"}}}};
  EXPECT_EQ(names_of(record).front(), kInclusive);
  // The sampler follows the profile, so another definition is not the cause.
  record.samplers[0].seen = {"fairdraw", {}};
  EXPECT_EQ(names_of(record).front(), "top_p: 1 % larger");
  // No value explains the sampler, so the hint of the case itself is used.
  record.samplers[0].seen = {"hf", {{"mass exactly at top_p", "mass_above_below_p", {}}}};
  EXPECT_EQ(names_of(record).front(), kAtMost);
}

TEST(RankedCauses, ADefinitionThatOnlyIdentifySawExplainsSymptoms) {
  RunRecord record = run_of({failed("a", "mask", {{"mask: too few tokens", ""}})});
  record.samplers[0].seen = {
      "hf", {{"mass exactly at top_p", "mass_above_below_p", {"inclusive_mass_at_most_p"}}}};
  const std::vector<Cause> causes = ranked_causes(record);
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0].name, kInclusive);
  EXPECT_EQ(causes[0].text.sentence, "The token that crosses top_p is dropped.");
}

}  // namespace
}  // namespace fairdraw::harness
