#include "reports/wording.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reports/report.h"
#include "reports/tests/sample_records.h"

namespace fairdraw::reports {
namespace {

using harness::RunRecord;
using harness::Verdict;

RunRecord record_of(std::initializer_list<Verdict> verdicts) {
  RunRecord record;
  for (const Verdict verdict : verdicts) {
    record.cases.emplace_back();
    record.cases.back().verdict = verdict;
  }
  return record;
}

TEST(VerdictSentence, says_what_the_exit_code_says) {
  constexpr auto passed = Verdict::passed, failed = Verdict::failed, skipped = Verdict::skipped,
                 underpowered = Verdict::underpowered, error = Verdict::error;
  const struct {
    std::initializer_list<Verdict> verdicts;
    const char* sentence;
    Verdict verdict;
    int exit_code;
  } rows[] = {
      {{}, "Nothing was tested, because there was no case.", skipped, 3},
      {{skipped}, "Nothing was tested: 1 was skipped.", skipped, 3},
      {{skipped, skipped}, "Nothing was tested: 2 were skipped.", skipped, 3},
      {{passed}, "The only case passed.", passed, 0},
      {{passed, passed}, "All 2 cases passed.", passed, 0},
      {{passed, skipped}, "1 of 2 cases passed; 1 was skipped.", passed, 0},
      {{passed, failed}, "1 of 2 cases failed.", failed, 1},
      {{failed, error, underpowered, skipped, skipped},
       "1 of 5 cases failed; 1 could not be run; 1 had too few draws to decide; 2 were skipped.",
       failed,
       1},
      {{passed, error}, "1 of 2 cases could not be run.", error, 1},
      {{passed, underpowered},
       "Nothing failed, but 1 of 2 cases had too few draws to decide.",
       underpowered,
       3},
  };
  for (const auto& row : rows) {
    const RunRecord record = record_of(row.verdicts);
    EXPECT_EQ(verdict_sentence(record), row.sentence);
    EXPECT_EQ(run_verdict(record), row.verdict) << row.sentence;
    EXPECT_EQ(record.exit_code(), row.exit_code) << row.sentence;
  }
}

TEST(Headline, is_the_cause_where_one_is_known) {
  RunRecord record = record_of({Verdict::passed, Verdict::failed});
  EXPECT_EQ(headline(record), "1 of 2 cases failed.");
  record.cases[1].evidence.suspects = {{"top_p: ignored", "tokens beyond top_p were drawn"}};
  const std::vector<FailureGroup> groups = failure_groups(record);
  ASSERT_FALSE(groups.front().bug.empty());
  EXPECT_EQ(headline(record), groups.front().text.sentence);
  EXPECT_TRUE(to_markdown(record).find("**" + headline(record)) != std::string::npos ||
              headline(record).find('_') != std::string::npos);
  record.incomplete = "interrupted by Ctrl-C";
  EXPECT_EQ(headline(record), verdict_sentence(record));
  EXPECT_EQ(headline(record_of({Verdict::passed})), "The only case passed.");
}

TEST(Proof, is_of_green_runs_and_has_two_sides) {
  EXPECT_TRUE(proof_of(record_of({Verdict::passed, Verdict::failed})).shown.empty());
  EXPECT_TRUE(proof_of(record_of({Verdict::failed})).not_shown.empty());
  RunRecord record = record_of({Verdict::passed, Verdict::passed, Verdict::passed});
  record.suite = "smoke";
  record.cases[0].min_discrepancy = 0.02;
  record.cases[1].min_discrepancy = 0.01;
  record.error_budget.false_alarm_rate = 1e-9;
  record.small_mistakes = {{"temperatures 1 % too high", "bets/a", 0.01, 2000, 1000},
                           {"temperatures 0.1 % too high", "bets/b", 0.001, 2000, 98000}};
  const Proof proof = proof_of(record);
  const auto says = [](const std::vector<std::string>& sentences, const std::string& part) {
    return std::ranges::any_of(
        sentences, [&](const std::string& one) { return one.find(part) != std::string::npos; });
  };
  EXPECT_TRUE(says(proof.shown, "in 1 case equal")) << proof.shown.front();
  EXPECT_TRUE(says(proof.shown, "draws in 2 cases"));
  EXPECT_TRUE(says(proof.shown, "variation of 0.02 "));
  EXPECT_TRUE(says(proof.shown, "at most 1e-09"));
  EXPECT_TRUE(says(proof.not_shown, "\"temperatures 0.1 % too high\", which take 98,000 draws"));
  EXPECT_FALSE(says(proof.not_shown, "temperatures 1 %"));
  EXPECT_TRUE(says(proof.not_shown, "of the suite smoke"));
  EXPECT_NE(to_markdown(record).find("## Conclusions from this run"), std::string::npos);
}

TEST(TerminalLine, has_the_beginning_of_a_long_message) {
  RunRecord record = record_of({Verdict::failed});
  record.cases[0].message = std::string(100'000, 'x');
  // The line may have 400 characters of the message, and less than 100 of everything else.
  EXPECT_LT(terminal_line(record.cases[0]).size(), 500u);
  EXPECT_NE(terminal_line(record.cases[0]).find("xxx..."), std::string::npos);
}

TEST(RedCases, failed_come_first_then_error_then_underpowered) {
  const RunRecord record = record_of(
      {Verdict::underpowered, Verdict::passed, Verdict::error, Verdict::failed, Verdict::skipped});
  const auto red = red_cases(record);
  ASSERT_EQ(red.size(), 3u);
  EXPECT_EQ(red[0], &record.cases[3]);
  EXPECT_EQ(red[1], &record.cases[2]);
  EXPECT_EQ(red[2], &record.cases[0]);
}

TEST(RedCases, show_each_check_before_any_twice) {
  RunRecord record = record_of({Verdict::failed, Verdict::failed, Verdict::failed});
  const char* const checks[] = {"mask", "mask", "streams"};
  for (std::size_t i = 0; i < 3; ++i) record.cases[i].check = checks[i];
  const auto red = red_cases(record);
  ASSERT_EQ(red.size(), 3u);
  EXPECT_EQ(red[0], &record.cases[0]);
  EXPECT_EQ(red[1], &record.cases[2]);
  EXPECT_EQ(red[2], &record.cases[1]);
}

TEST(FailureGroups, hold_every_red_case_once_by_the_cause_that_explains_most) {
  RunRecord record =
      record_of({Verdict::failed, Verdict::failed, Verdict::failed, Verdict::failed, Verdict::error,
                 Verdict::underpowered, Verdict::passed, Verdict::skipped});
  const auto suspect = [&record](std::size_t at, std::vector<harness::Suspect> suspects) {
    record.cases[at].check = "mask";
    record.cases[at].evidence = {};
    record.cases[at].evidence.suspects = std::move(suspects);
  };
  suspect(0, {{"ties", "a"}, {"top_k: ignored", "b"}});
  suspect(1, {{"top_k: ignored", "c"}});
  suspect(2, {{"ties", "d"}, {"top_k: ignored", "e"}});
  suspect(3, {});
  record.cases[3].filter = "min_p";  // such a case cannot show the cause top_k
  suspect(4, {{"top_k", "an error has no cause"}});
  const auto groups = failure_groups(record);
  // Three cases name top_k and two cases name the ties, but these two are already in the first
  // group.
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_EQ(groups[0].name, "top_k");
  EXPECT_EQ(groups[0].cases.size(), 3u);
  // No cause explains one of four failed cases, more than 5 %.
  EXPECT_TRUE(groups[0].is_doubtful);
  EXPECT_EQ(groups[0].text.sentence, "No known mistake explains this.");
  EXPECT_TRUE(groups[0].text.change.starts_with(
      "The nearest mistake does not explain 1 of 4 failed cases: top_k is ignored."));
  EXPECT_EQ(share_text(groups[0], record), "3 of 4 failed cases");
  EXPECT_EQ(groups[1].name, "no known cause");
  EXPECT_EQ(groups[1].cases, std::vector<const harness::CaseRecord*>{&record.cases[3]});
  EXPECT_EQ(groups[2].name, "could not be run");
  EXPECT_EQ(groups[2].cases, std::vector<const harness::CaseRecord*>{&record.cases[4]});
  EXPECT_EQ(groups[3].name, "too few draws");
  EXPECT_EQ(groups[3].cases, std::vector<const harness::CaseRecord*>{&record.cases[5]});
  EXPECT_TRUE(failure_groups(record_of({Verdict::passed, Verdict::skipped})).empty());
}

TEST(Grouped, thousands) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(18446744073709551615u), "18,446,744,073,709,551,615");
}

TEST(Unnoticed, takes_the_largest_of_the_passed_statistical_cases) {
  RunRecord record = small_record();
  record.cases.push_back(record.cases[0]);
  record.cases.back().min_discrepancy = 0.02;
  const auto lines = unnoticed(record);
  ASSERT_EQ(lines.size(), 1u);  // exact, failed and underpowered cases are left out
  EXPECT_EQ(lines[0].sampler, "cpu:avx2");
  EXPECT_EQ(lines[0].check, "dkwm");
  EXPECT_EQ(lines[0].cases, 3u);
  EXPECT_EQ(lines[0].min_discrepancy, 0.02);
}

TEST(Notes, stand_before_the_summary_line_and_on_every_page) {
  const RunRecord record = small_record();
  const std::string note = "Judged by profile vllm_torch, which allows anything at: top_p 0.";
  EXPECT_NE(to_terminal(record).find("note          plugin:demo  " + note + "\nfairdraw: "),
            std::string::npos);
  EXPECT_NE(to_json(record).find(note), std::string::npos);
  EXPECT_NE(to_html(record).find(note), std::string::npos);
  EXPECT_NE(to_markdown(record).find("which allows anything at"), std::string::npos);
  EXPECT_EQ(from_json(to_json(record)).samplers.back().notes, std::vector<std::string>{note});
  EXPECT_EQ(to_json(from_json(to_json(record))), to_json(record));
}

TEST(Watch, is_listed_whatever_the_verdict_is) {
  harness::RunRecord record = small_record();
  EXPECT_EQ(watched_cases(record), std::vector<const harness::CaseRecord*>{&record.cases.back()});
  EXPECT_FALSE(is_red(record.cases.back()));
  record.cases[2].watch = "also";
  EXPECT_EQ(watched_cases(record).front(), &record.cases[2]);
}

TEST(Wording, durations_and_dates) {
  EXPECT_EQ(duration_text(1.5), "1.5 s");
  EXPECT_EQ(duration_text(192.4), "3 min 12 s");
  EXPECT_EQ(duration_text(7500), "2 h 5 min");
  harness::RunRecord record;
  EXPECT_EQ(date_text(record), "");
  record.environment["started"] = "2026-11-24T22:55:03Z";
  EXPECT_EQ(date_text(record), "24 November 2026, 22:55 UTC");
  // Merged shards have several start times, of which the earliest one counts.
  record.environment["started"] = "2026-11-24T22:55:03Z; 2026-11-24T09:05:00Z";
  EXPECT_EQ(date_text(record), "24 November 2026, 09:05 UTC");
  record.environment["started"] = "yesterday";
  EXPECT_EQ(date_text(record), "yesterday");
}

}  // namespace
}  // namespace fairdraw::reports
