// The tests require that coverage is counted from the cases, shown in every medium, and decides
// with the verdicts how a run ends.
#include "reports/coverage.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "harness/run/evidence/abilities.h"
#include "reports/compare.h"
#include "reports/report.h"
#include "reports/tests/sample_records.h"
#include "reports/wording.h"

namespace fairdraw::reports {
namespace {

using harness::CaseRecord;
using harness::Coverage;
using harness::RunRecord;
using harness::Verdict;

CaseRecord case_of(const std::string& id, std::vector<std::string> features, Verdict verdict,
                   std::vector<std::string> lacks = {}) {
  CaseRecord one;
  one.id = id;
  one.suite = "smoke";
  one.check = "mask";
  one.sampler = "plugin:mine.so";
  one.semantics = "fairdraw";
  one.verdict = verdict;
  one.features = std::move(features);
  one.lacks = std::move(lacks);
  return one;
}

/// Returns the record of a sampler that declares top_p, but neither masks nor seeds per request.
RunRecord tokens_only() {
  RunRecord record = small_record();
  record.shard = "1/1";
  record.case_part.clear();
  record.selection.clear();
  record.places.clear();
  record.planned = 0;
  record.required.clear();
  record.max_skipped.reset();
  record.samplers = {{"plugin:mine.so", "1.0", "fairdraw"}};
  record.cases = {
      case_of("mask/a", {"top_p", "masks"}, Verdict::skipped, {"reports_mask"}),
      case_of("mask/b", {"top_p", "masks"}, Verdict::skipped, {"reports_mask"}),
      case_of("mask/c", {"top_k", "top_p"}, Verdict::skipped, {"top_k"}),
      case_of("tokens/a", {"top_p", "exact_integer"}, Verdict::skipped, {"exact_integer"}),
      case_of("replay/a", {"top_p", "seeds"}, Verdict::skipped, {"per_request_seeds"}),
      case_of("bets/a", {"distribution", "top_p"}, Verdict::passed, {"num_samples"}),
      case_of("bets/b", {"distribution"},
              Verdict::skipped),  // the profile defines no row of the case
      case_of("boundaries/a", {"top_k", "top_p", "min_p"}, Verdict::passed, {"top_k"})};
  record.draws = 0;
  return record;
}

const harness::FeatureCoverage& feature(const Coverage& coverage, const std::string& name) {
  for (const harness::FeatureCoverage& one : coverage.features) {
    if (one.name == name) return one;
  }
  throw std::out_of_range(name);
}

TEST(Coverage, WhatIsNoLongerJudgedIsARegression) {
  RunRecord base = tokens_only();
  for (CaseRecord& one : base.cases) {
    if (one.id == "replay/a") one.verdict = Verdict::passed;
    if (one.id == "replay/a") one.lacks.clear();
  }
  const Comparison lost = compare(base, tokens_only());
  ASSERT_EQ(lost.features.size(), 1u);
  EXPECT_EQ(lost.features[0].name, "seeds");
  EXPECT_EQ(lost.features[0].base, 1u);
  EXPECT_EQ(lost.features[0].head, 0u);
  EXPECT_EQ(lost.features[0].lacks, std::vector<std::string>{"per_request_seeds"});
  EXPECT_EQ(lost.regressions(), 2u);  // the lost feature and its case are regressions
  const std::string words =
      "is no longer judged: the sampler does not declare per\\_request\\_seeds";
  EXPECT_NE(to_markdown(lost).find(words), std::string::npos) << to_markdown(lost);
  EXPECT_NE(to_json(lost).find("\"lost\""), std::string::npos);

  const Comparison gained = compare(tokens_only(), base);
  ASSERT_EQ(gained.features.size(), 1u);
  EXPECT_TRUE(gained.features[0].gained);
  EXPECT_EQ(gained.regressions(), 0u);

  RunRecord other = tokens_only();
  other.selection = "mask/*";
  // not a regression, because other cases were requested
  EXPECT_FALSE(compare(base, other).features.at(0).regression);
}

TEST(Coverage, CountsWhatRanAndWhatWasLeftOut) {
  const std::vector<Coverage> all = harness::coverage_of(tokens_only());
  ASSERT_EQ(all.size(), 1u);
  const Coverage& coverage = all.front();
  EXPECT_EQ(coverage.cases, 8u);
  EXPECT_EQ(coverage.ran, 2u);
  EXPECT_EQ(coverage.skipped, 6u);
  // Cases that were skipped for another ability, or because no row is defined, do not count against
  // the cases that ran.
  EXPECT_TRUE(feature(coverage, "top_p").judged);
  EXPECT_EQ(feature(coverage, "top_p").cases, 7u);
  EXPECT_EQ(feature(coverage, "top_p").ran, 2u);
  EXPECT_TRUE(feature(coverage, "distribution").judged);
  EXPECT_TRUE(feature(coverage, "min_p").judged);
  // A case that passed without exercising the feature has not judged the feature.
  EXPECT_FALSE(feature(coverage, "top_k").judged);
  EXPECT_EQ(feature(coverage, "top_k").ran, 0u);
  EXPECT_FALSE(feature(coverage, "masks").judged);
  EXPECT_FALSE(feature(coverage, "seeds").judged);
  // A sampler that does not claim the bits of the integer arithmetic lacks no feature there.
  EXPECT_TRUE(feature(coverage, "exact_integer").claim);
  EXPECT_EQ(coverage.not_judged(), (std::vector<std::string>{"top_k", "seeds", "masks"}));
}

TEST(Coverage, NamesWhatWouldBringMostCasesFirst) {
  const Coverage coverage = harness::coverage_of(tokens_only()).front();
  ASSERT_EQ(coverage.undeclared.size(), 4u);
  EXPECT_EQ(coverage.undeclared[0].ability, "reports_mask");
  EXPECT_EQ(coverage.undeclared[0].skipped, 2u);
  EXPECT_EQ(coverage.undeclared[0].features, std::vector<std::string>{"masks"});
  EXPECT_EQ(coverage.undeclared[1].ability, "top_k");
  EXPECT_EQ(coverage.undeclared[1].in_part, 1u);
  EXPECT_EQ(coverage.undeclared[2].ability, "per_request_seeds");
  EXPECT_EQ(coverage.undeclared[3].ability, "num_samples");
  EXPECT_EQ(coverage.undeclared[3].skipped, 0u);
  EXPECT_EQ(declare_sentence(coverage, 2),
            "FAIRDRAW_REPORTS_MASK for 2 cases (masks); FAIRDRAW_CAN_TOP_K for 1 case (top_k); and "
            "1 more");
}

// A feature is judged if at least as many of its cases ran as were skipped for lack of its
// abilities.
TEST(Coverage, AFeatureNeedsAsManyCasesAsItsOwnAbilitiesWouldBring) {
  RunRecord record = tokens_only();
  record.cases = {case_of("a", {"masks"}, Verdict::passed),
                  case_of("b", {"masks"}, Verdict::skipped, {"reports_mask"})};
  EXPECT_TRUE(feature(harness::coverage_of(record).front(), "masks").judged);
  record.cases.push_back(case_of("c", {"masks"}, Verdict::skipped, {"reports_mask"}));
  EXPECT_FALSE(feature(harness::coverage_of(record).front(), "masks").judged);
}

// Returns the record of a sampler that declares bfloat16 and top_p, but not top_k.
RunRecord narrow_rows() {
  RunRecord record = tokens_only();
  const auto sized = [](std::uint64_t vocab, CaseRecord one) {
    one.vocab = vocab;
    return one;
  };
  record.cases = {sized(1000, case_of("bets/a", {"distribution", "top_p"}, Verdict::passed)),
                  sized(1000, case_of("bets/b", {"distribution", "bfloat16"}, Verdict::passed)),
                  sized(1000, case_of("bets/c", {"distribution", "top_k", "top_p", "bfloat16"},
                                      Verdict::skipped, {"top_k"})),
                  sized(32'000, case_of("bets/d", {"distribution", "top_p"}, Verdict::passed)),
                  sized(32'000, case_of("bets/e", {"distribution", "top_k", "top_p", "bfloat16"},
                                        Verdict::skipped, {"top_k"}))};
  return record;
}

std::string end_of_sentence(const RunRecord& record) {
  const std::string sentence = coverage_sentence(harness::coverage_of(record).front(), record);
  return sentence.substr(sentence.find("; ") + 2);
}

// top_p ran in float32 alone, although the sampler was judged in bfloat16.
TEST(Coverage, AFeatureIsJudgedOnlyAtSizesAndInTypesInWhichItRan) {
  RunRecord record = narrow_rows();
  EXPECT_TRUE(feature(harness::coverage_of(record).front(), "top_p").judged);
  EXPECT_EQ(end_of_sentence(record),
            "not judged: top_k; not judged in bfloat16: top_p; nothing judged in bfloat16 of 4,097 "
            "to 65,536 ids");
  EXPECT_NE(to_terminal(record).find("not judged in bfloat16: top_p"), std::string::npos);
  EXPECT_NE(to_markdown(record).find("not judged in bfloat16: top\\_p"), std::string::npos);
  // Now a case in bfloat16 judges the feature at one of two sizes; the other size remains.
  record.cases[2].verdict = Verdict::failed;
  record.cases[2].lacks.clear();
  EXPECT_EQ(end_of_sentence(record), "nothing judged in bfloat16 of 4,097 to 65,536 ids");
  record.cases[4] = record.cases[2];
  record.cases[4].id = "bets/e";
  record.cases[4].vocab = 32'000;
  EXPECT_EQ(end_of_sentence(record), "every feature of --require was judged");
  record.cases[4].lacks = {"top_p"};  // the case ran without its rows that need top_p
  EXPECT_EQ(end_of_sentence(record), "not judged in bfloat16 of 4,097 to 65,536 ids: top_p");
}

TEST(Coverage, ASizeOfWhichNothingRanIsNamedOnce) {
  RunRecord record = narrow_rows();
  for (const std::size_t i : {std::size_t{3}, std::size_t{4}}) {
    record.cases[i].vocab = 262'144;
    record.cases[i].verdict = Verdict::skipped;
  }
  record.cases[2].verdict = Verdict::passed;
  record.cases[2].lacks.clear();
  EXPECT_EQ(end_of_sentence(record), "nothing judged above 65,536 ids");
  // A sampler without bfloat16 is told so, and is told nothing about sizes in bfloat16.
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}, std::size_t{4}}) {
    record.cases[i].verdict = Verdict::skipped;
    record.cases[i].lacks = {"bfloat16"};
  }
  record.cases[3].verdict = Verdict::passed;
  EXPECT_EQ(end_of_sentence(record), "not judged: top_k, bfloat16");
}

TEST(Coverage, IsSaidInEveryMedium) {
  const RunRecord record = tokens_only();
  const std::string sentence =
      "25 % of the suite applies to this sampler (2 of 8 cases); not judged: top_k, seeds, masks";
  EXPECT_EQ(coverage_sentence(harness::coverage_of(record).front(), record), sentence);
  const std::string terminal = to_terminal(record);
  EXPECT_NE(terminal.find("coverage      plugin:mine.so  " + sentence + "\n"), std::string::npos)
      << terminal;
  EXPECT_NE(terminal.find("declare next  plugin:mine.so  FAIRDRAW_REPORTS_MASK for 2 cases"),
            std::string::npos)
      << terminal;
  EXPECT_NE(to_html(record).find("\"sentences\":[\"" + sentence), std::string::npos);
  EXPECT_NE(to_junit_xml(record).find("name=\"coverage\" value=\"" + sentence), std::string::npos);
  EXPECT_NE(to_markdown(record).find("## What was judged"), std::string::npos);
  EXPECT_NE(
      to_annotations(record).find("::notice title=fairdraw: coverage::plugin:mine.so: 25 %25"),
      std::string::npos);
  EXPECT_EQ(from_json(to_json(record)).cases[2].lacks, std::vector<std::string>{"top_k"});
}

TEST(Coverage, WhatIsRequiredAndWasNotJudgedEndsWith3) {
  RunRecord record = tokens_only();
  EXPECT_EQ(record.exit_code(), 0);
  record.required = {"top_p", "seeds"};
  EXPECT_EQ(record.exit_code(), 3);
  EXPECT_EQ(run_verdict(record), Verdict::underpowered);
  EXPECT_EQ(harness::unmet_requirements(record),
            std::vector<std::string>{
                "plugin:mine.so: seeds was not judged: of its 1 cases 0 ran; to be declared: "
                "FAIRDRAW_PER_REQUEST_SEEDS"});
  EXPECT_NE(terminal_summary(record).find("; NOT JUDGED: plugin:mine.so: seeds was not judged"),
            std::string::npos);
  EXPECT_NE(verdict_sentence(record).find("not every required feature was judged"),
            std::string::npos);
  const std::string junit = to_junit_xml(record);
  EXPECT_NE(junit.find("tests=\"9\" failures=\"1\" errors=\"0\""), std::string::npos) << junit;
  EXPECT_NE(junit.find("<failure type=\"coverage\" message=\"plugin:mine.so: seeds was not judged"),
            std::string::npos);
  EXPECT_NE(to_annotations(record).find("::error title=fairdraw: not judged::"), std::string::npos);
  EXPECT_NE(to_markdown(record).find("**Required, and missing:**"), std::string::npos);
  EXPECT_NE(to_html(record).find("\"unmet\":[\"plugin:mine.so: seeds"), std::string::npos);
  // The requirements are written with the record and read back.
  EXPECT_EQ(from_json(to_json(record)).exit_code(), 3);
  // A failure takes precedence.
  record.cases[5].verdict = Verdict::failed;
  EXPECT_EQ(record.exit_code(), 1);
  // No case exercises the required feature, so the feature is not judged either.
  record = tokens_only();
  record.required = {"chains"};
  EXPECT_EQ(record.exit_code(), 3);
}

TEST(Coverage, AtMostSoManyCasesMayBeSkipped) {
  RunRecord record = tokens_only();
  record.max_skipped = 75;  // 6 of 8
  EXPECT_EQ(record.exit_code(), 0);
  record.max_skipped = 74.9;
  EXPECT_EQ(record.exit_code(), 3);
  EXPECT_EQ(harness::unmet_requirements(record).front(),
            "plugin:mine.so: 75 % of its cases were skipped; allowed: 74.9 %");
}

TEST(Coverage, RecordsThatDoNotSayWhatACaseExercisesHaveNone) {
  RunRecord record = tokens_only();
  for (CaseRecord& one : record.cases) one.features.clear();
  EXPECT_TRUE(harness::coverage_of(record).empty());
  EXPECT_EQ(to_json(record).find("\"coverage\""), std::string::npos);
}

// Names of samplers come from outside, so they may be hostile. A hostile name must stay on its line
// and have no effect.
TEST(Coverage, HostileNamesAreSpelledOut) {
  RunRecord record = tokens_only();
  record.required = {"seeds", nasty_text()};
  record.samplers.front().name += nasty_text();
  for (CaseRecord& one : record.cases) {
    one.sampler = record.samplers.front().name;
    one.features.push_back(nasty_text());
    one.lacks.push_back(nasty_text());
  }
  EXPECT_EQ(count_of(to_terminal(record), "\n"), 3U) << to_terminal(record);
  EXPECT_EQ(to_terminal(record).find('\x1b'), std::string::npos);
  // one line for the requirement, and two for the notices
  EXPECT_EQ(count_of(to_annotations(record), "\n"), 3U);
  EXPECT_EQ(to_html(record).find("<b onload"), std::string::npos);
  // As everywhere, a hostile name appears only inside code.
  RunRecord plain = tokens_only();
  plain.required = {"seeds"};
  EXPECT_EQ(count_of(to_markdown(record), "\n- "), count_of(to_markdown(plain), "\n- ") + 1);
}

TEST(Coverage, OfTheSampleRecordComesBack) {
  const RunRecord record = from_json(to_json(covered_record()));
  EXPECT_EQ(to_json(record), to_json(covered_record()));
  EXPECT_EQ(record.required, (std::vector<std::string>{"top_p", "masks"}));
  EXPECT_EQ(record.max_skipped, 12.5);
}

TEST(Coverage, TheRecordCannotStateAnother) {
  std::string text = to_json(tokens_only());
  const std::string right = "\"ran\": 2,";
  text.replace(text.find(right), right.size(), "\"ran\": 3,");
  EXPECT_THROW(from_json(text), std::runtime_error);
}

TEST(Features, HaveOneNameEachAndAbilitiesThatExist) {
  std::set<std::string> names;
  for (const std::string& name : harness::feature_names()) {
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_FALSE(harness::what_is_judged(name).empty()) << name;
    for (const std::string_view ability : harness::abilities_of(name)) {
      EXPECT_FALSE(harness::lack_of(ability).reason.empty()) << ability;
      const std::string declaration = harness::declaration_of(ability, "plugin:a.so");
      EXPECT_NE(declaration.find("FAIRDRAW_"), declaration.npos) << declaration;
    }
  }
  // A sampler makes the promise bad_rows unless it declines this promise.
  EXPECT_EQ(harness::declaration_of("bad_rows", "plugin:a.so"), "no FAIRDRAW_DECLINES_BAD_ROWS");
  EXPECT_EQ(harness::declaration_of("bad_rows", "mine"), "bad_rows (not in `lacks`)");
  EXPECT_THROW(harness::lack_of("no_such_ability"), std::logic_error);
}

}  // namespace
}  // namespace fairdraw::reports
