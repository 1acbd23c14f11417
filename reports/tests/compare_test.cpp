#include "reports/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "reports/report.h"
#include "reports/tests/sample_records.h"

namespace fairdraw::reports {
namespace {

using harness::RunRecord;
using harness::Verdict;

TEST(Compare, a_record_has_not_changed_from_itself) {
  const Comparison same = compare(small_record(), small_record());
  EXPECT_EQ(same.changes(), 0u);
  EXPECT_EQ(same.compared, small_record().cases.size());
  EXPECT_NE(to_markdown(same).find("No change in 7 compared."), std::string::npos);
}

TEST(Compare, nothing_compared_and_an_incomplete_head_say_nothing) {
  EXPECT_TRUE(compare(small_record(), small_record()).says_something());
  RunRecord part = small_record();
  part.incomplete = "stopped by SIGINT after 7 of 9 cases";
  const Comparison incomplete = compare(small_record(), part);
  EXPECT_EQ(incomplete.regressions(), 0u);
  EXPECT_FALSE(incomplete.says_something());
  EXPECT_NE(to_markdown(incomplete).find("head is incomplete"), std::string::npos);
  EXPECT_NE(to_markdown(incomplete).find("stopped by SIGINT"), std::string::npos);
  const Comparison nothing = compare(std::vector<harness::BenchmarkRecord>(), {}, kSpeedTolerance);
  EXPECT_FALSE(nothing.says_something());
  EXPECT_NE(to_markdown(nothing).find("Nothing was compared"), std::string::npos);
  EXPECT_NE(to_html(nothing).find("Nothing was compared"), std::string::npos);
  EXPECT_EQ(to_html(nothing).find("<h1 class=\"passed\">"), std::string::npos);
  EXPECT_FALSE(compare({}, benchmark_rows(), kSpeedTolerance).says_something());
  EXPECT_TRUE(compare(benchmark_rows(), benchmark_rows(), kSpeedTolerance).says_something());
}

TEST(Compare, what_turned_red_is_a_regression_and_what_turned_green_is_none) {
  RunRecord head = small_record();
  head.cases[0].verdict = Verdict::failed;
  head.cases[0].message = "token 4 instead of 5";
  head.cases[2].verdict = Verdict::passed;
  const Comparison changed = compare(small_record(), head);
  ASSERT_EQ(changed.verdicts.size(), 2u);
  EXPECT_EQ(changed.regressions(), 1u);
  EXPECT_EQ(changed.verdicts[0].id, small_record().cases[0].id);
  EXPECT_TRUE(changed.verdicts[0].regression);
  EXPECT_EQ(changed.verdicts[1].base, Verdict::failed);
  EXPECT_FALSE(changed.verdicts[1].regression);
  EXPECT_NE(to_markdown(changed).find("token 4 instead of 5"), std::string::npos);
}

TEST(Compare, says_how_many_are_fixed_and_how_many_regressed) {
  RunRecord head = small_record();
  head.cases[0].verdict = Verdict::failed;
  head.cases[2].verdict = Verdict::passed;
  const Comparison changed = compare(small_record(), head);
  EXPECT_EQ(changed.fixed(), 1u);
  EXPECT_NE(to_markdown(changed).find("1 fixed, 1 regressed in 7 compared."), std::string::npos);
  EXPECT_NE(to_html(changed).find("1 fixed, 1 regressed in 7 compared."), std::string::npos);
  const auto json = nlohmann::json::parse(to_json(changed));
  EXPECT_EQ(json["fixed"], 1);
  const std::string text = to_terminal(changed, false);
  EXPECT_TRUE(text.starts_with("1 fixed, 1 regressed in 7 compared.\n  base  ")) << text;
  EXPECT_NE(text.find("\nworse    "), std::string::npos) << text;
  EXPECT_NE(text.find("\nfixed    "), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(to_terminal(changed, true).find("\x1b[31mworse"), std::string::npos);
}

RunRecord run_of(const std::vector<harness::SamplerRecord>& samplers) {
  RunRecord record = small_record();
  const harness::CaseRecord one = record.cases.front();
  record.samplers = samplers;
  record.cases.clear();
  for (const harness::SamplerRecord& sampler : samplers) {
    record.cases.push_back(one);
    record.cases.back().sampler = sampler.name;
  }
  return record;
}

TEST(Compare, pairs_samplers_by_what_they_call_themselves_or_one_to_one) {
  const harness::SamplerRecord old_mine{"plugin:./old.so", "mine 1.0", "hf"},
      new_mine{"plugin:./new.so", "mine 1.1", "hf"}, cpu{"cpu", "1.0", "fairdraw"},
      other{"plugin:./other.so", "other 1.0", "hf"}, model{"model", "1.0", "fairdraw"};
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  const struct {
    std::vector<harness::SamplerRecord> base, head;
    Pairs pairs;
    std::uint64_t compared;
  } rows[] = {
      {{cpu, old_mine}, {new_mine, cpu}, {{old_mine.name, new_mine.name}}, 2},
      {{old_mine, other}, {new_mine, cpu}, {{old_mine.name, new_mine.name}}, 1},
      {{old_mine}, {other}, {{old_mine.name, other.name}}, 1},  // one sampler each
      {{cpu}, {model}, {{"cpu", "model"}}, 1},
      {{cpu}, {cpu}, {}, 1},
      {{cpu, old_mine}, {cpu, other}, {}, 1},
      {{old_mine, cpu}, {model, other}, {}, 0},
  };
  for (const auto& row : rows) {
    const Comparison found = compare(run_of(row.base), run_of(row.head));
    EXPECT_EQ(found.paired, row.pairs) << row.base.front().name;
    EXPECT_EQ(found.compared, row.compared) << row.base.front().name;
    EXPECT_EQ(to_markdown(found).find("is compared with") != std::string::npos, !row.pairs.empty());
  }
}

TEST(Compare, a_case_that_is_gone_is_a_regression_of_the_same_choice_only) {
  RunRecord head = small_record();
  head.cases.erase(head.cases.begin());
  EXPECT_EQ(compare(small_record(), head).regressions(), 1u);
  head.selection = "other/*";
  const Comparison chosen = compare(small_record(), head);
  EXPECT_EQ(chosen.regressions(), 0u);
  ASSERT_EQ(chosen.verdicts.size(), 1u);
  EXPECT_FALSE(chosen.verdicts[0].head.has_value());
}

TEST(Compare, a_new_case_is_news_only_when_it_is_not_green) {
  RunRecord base = small_record();
  base.cases.erase(base.cases.begin(), base.cases.begin() + 3);  // passed, passed, failed
  const Comparison changed = compare(base, small_record());
  ASSERT_EQ(changed.verdicts.size(), 1u);
  EXPECT_EQ(changed.verdicts[0].head, Verdict::failed);
  EXPECT_TRUE(changed.verdicts[0].regression);
}

TEST(Compare, effects_change_where_their_intervals_do_not_meet) {
  RunRecord base = small_record(), head = small_record();
  const auto set = [](RunRecord& record, double value, double half) {
    record.cases[2].evidence.effect = {"total variation", value, value - half,
                                       value + half,      0.0,   0.99};
  };
  set(base, 0.010, 0.001);
  set(head, 0.0119, 0.001);  // overlap at 0.011
  EXPECT_EQ(compare(base, head).effects.size(), 0u);
  set(head, 0.0125, 0.001);  // the intervals do not overlap, but would if three times as wide, so
                             // the difference may be chance
  ASSERT_EQ(compare(base, head).effects.size(), 1u);
  EXPECT_EQ(compare(base, head).regressions(), 0u);
  set(head, 0.0165, 0.001);  // the values differ by more than 3 * 0.001 on both sides
  EXPECT_EQ(compare(base, head).regressions(), 1u);
  // the effect has moved closer to the expected value
  EXPECT_EQ(compare(head, base).regressions(), 0u);
  head.cases[2].evidence.effect->name = "another thing";
  EXPECT_EQ(compare(base, head).effects.size(), 0u);
}

TEST(Compare, seconds_of_a_check_are_shown_and_are_no_regression) {
  RunRecord head = small_record();
  for (harness::CaseRecord& one : head.cases) one.seconds *= 20;
  const Comparison slower = compare(small_record(), head);
  EXPECT_FALSE(slower.speeds.empty());
  EXPECT_EQ(slower.regressions(), 0u);
  head.environment["cpu"] = "another";
  EXPECT_TRUE(compare(small_record(), head).speeds.empty());
}

TEST(Compare, benchmarks_are_compared_by_their_ratio_to_the_floor) {
  auto head = benchmark_rows();
  head[0].ratio *= 1.09;
  head[0].microseconds *= 3;  // the time and its floor change together, as on a slower machine
  EXPECT_EQ(compare(benchmark_rows(), head, kSpeedTolerance).changes(), 0u);
  head[0].ratio *= 1.1;
  const Comparison slower = compare(benchmark_rows(), head, kSpeedTolerance);
  ASSERT_EQ(slower.speeds.size(), 1u);
  EXPECT_EQ(slower.regressions(), 1u);
  EXPECT_EQ(compare(head, benchmark_rows(), kSpeedTolerance).regressions(), 0u);
  head.pop_back();
  EXPECT_EQ(compare(benchmark_rows(), head, 10).regressions(), 1u);  // a row is gone
}

TEST(Compare, hostile_names_add_no_row_and_no_markup) {
  RunRecord head = nasty_record();
  for (harness::CaseRecord& one : head.cases) {
    one.verdict = one.verdict == Verdict::passed ? Verdict::failed : Verdict::passed;
  }
  const Comparison changed = compare(nasty_record(), head);
  ASSERT_EQ(changed.verdicts.size(), head.cases.size());
  const std::string markdown = to_markdown(changed), html = to_html(changed);
  std::size_t rows = 0, bars = 0;
  std::istringstream lines(markdown);
  for (std::string line; std::getline(lines, line);) {
    // lines with other beginnings are skipped, because text may contain bars
    if (line.empty() || line.front() != '|') continue;
    ++rows;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '\\') {
        ++i;  // skips a character after a backslash, which is text
      } else if (line[i] == '|') {
        ++bars;
      }
    }
  }
  EXPECT_EQ(rows, 2 + head.cases.size());
  EXPECT_EQ(bars, 7 * rows);
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("<b onload"), std::string::npos);
  for (const std::string& page : {markdown, html, to_json(changed)}) {
    EXPECT_EQ(page.find('\x1b'), std::string::npos);
  }
}

TEST(Compare, a_comment_stays_below_its_limit_and_says_what_is_left_out) {
  RunRecord base = small_record();
  const harness::CaseRecord one = base.cases[0];
  for (int i = 0; i < 2000; ++i) {
    base.cases.push_back(one);
    base.cases.back().id += std::to_string(i);
  }
  RunRecord head = base;
  for (harness::CaseRecord& changed : head.cases) changed.verdict = Verdict::failed;
  const std::string markdown = to_markdown(compare(base, head));
  EXPECT_LE(markdown.size(), 60u * 1024);
  EXPECT_NE(markdown.find("more changes are not shown here"), std::string::npos);
}

TEST(Compare, json_holds_every_change) {
  RunRecord head = small_record();
  head.cases[0].verdict = Verdict::failed;
  const auto json = nlohmann::json::parse(to_json(compare(small_record(), head)));
  EXPECT_EQ(json["regressions"], 1);
  EXPECT_EQ(json["verdicts"][0]["base"], "passed");
  EXPECT_EQ(json["verdicts"][0]["head"], "failed");
  EXPECT_EQ(json["verdicts"][0]["replay"], small_record().cases[0].replay);
}

TEST(Annotations, one_a_check_and_ten_of_a_kind) {
  RunRecord record = small_record();
  const std::string text = to_annotations(record);
  // The commands are g_test failed, mask error, dkwm underpowered, and dkwm watched.
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_NE(text.find("::error title=fairdraw%3A g_test is red::sample/top_k/zipf/v1000 on "
                      "plugin:demo: token 17 was drawn 31 times; expected 0"),
            std::string::npos)
      << text;
  for (int i = 0; i < 30; ++i) {
    record.cases.push_back(record.cases[2]);
    record.cases.back().check = "check " + std::to_string(i);
  }
  const std::string many = to_annotations(record);
  EXPECT_EQ(std::count(many.begin(), many.end(), '\n'), 10 + 1);
  EXPECT_EQ(to_annotations(RunRecord()), "");
}

TEST(Annotations, hostile_text_starts_no_command) {
  RunRecord record = nasty_record();
  for (harness::CaseRecord& one : record.cases) {
    one.message = "50% of\n::error::forged\r::set-output name=x::y" + nasty_text();
    one.check = "a,title=b::c\n";
  }
  const std::string text = to_annotations(record);
  std::size_t lines = 0;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1, ++lines) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    EXPECT_TRUE(line.starts_with("::error title=") || line.starts_with("::warning title=")) << line;
    EXPECT_EQ(line.find('\r'), std::string::npos);
    // The title ends at the first "::" that follows it, so the name of a check must not contain
    // "::".
    const std::string title = line.substr(line.find("title="), line.find("::", 2));
    EXPECT_EQ(title.substr(0, title.find("::")).find(','), std::string::npos);
  }
  EXPECT_EQ(lines, 3u);  // one line for the incomplete run, and two for a check that failed and one
                         // that is watched
  EXPECT_NE(text.find("50%25 of"), std::string::npos);
}

}  // namespace
}  // namespace fairdraw::reports
