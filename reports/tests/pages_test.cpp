// The tests compare reports for people and CI systems with stored pages. check_pages.py tests with
// independent parsers that the pages are well formed, and that hostile text stays text.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "harness/run/evidence/cause_texts.h"
#include "reports/escape.h"
#include "reports/page/template.h"
#include "reports/report.h"
#include "reports/tests/evidence_samples.h"
#include "reports/tests/sample_records.h"

namespace fairdraw::reports {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream) << path;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// Expects that a page equals the stored page of this name. If the pages differ, the new page is
/// left in the build folder. FAIRDRAW_STORE_GOLDEN=1 stores all pages again; see
/// tests/golden/README.md.
void expect_golden(const std::string& name, const std::string& page) {
  const auto golden = std::filesystem::path(FAIRDRAW_GOLDEN) / name;
  if (std::getenv("FAIRDRAW_STORE_GOLDEN") != nullptr) {
    std::ofstream(golden, std::ios::binary) << page;
    return;
  }
  if (std::filesystem::exists(golden) && content(golden) == page) return;
  const auto actual = std::filesystem::path(testing::TempDir()) / ("actual_" + name);
  std::ofstream(actual, std::ios::binary) << page;
  ADD_FAILURE() << "the page differs from the stored one; see\n  diff " << actual.string() << " "
                << golden.string()
                << "\nand if the new one is right, FAIRDRAW_STORE_GOLDEN=1 with "
                   "--gtest_filter='Golden.*' stores all of them";
}

/// Returns the data from which the page's script draws the page. Pages differ only in these data,
/// in the title and in the verdict.
std::string data_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = page.find(begin) + begin.size();
  return page.substr(from, page.find("</script>", from) - from) + "\n";
}

TEST(Golden, report_json) { expect_golden("report.json", to_json(small_record())); }
TEST(Golden, junit_xml) { expect_golden("junit.xml", to_junit_xml(small_record())); }
TEST(Golden, summary_md) { expect_golden("summary.md", to_markdown(small_record())); }
TEST(Golden, index_json) { expect_golden("index.json", data_of(to_html(small_record()))); }
TEST(Golden, evidence_json) {
  expect_golden("evidence.json", data_of(to_html(evidence_record(), sample_extras())));
}
TEST(Golden, evidence_junit_xml) { expect_golden("evidence.xml", to_junit_xml(evidence_record())); }
TEST(Golden, evidence_md) { expect_golden("evidence.md", to_markdown(evidence_record())); }
TEST(Golden, terminal_txt) { expect_golden("terminal.txt", to_terminal(small_record())); }
TEST(Golden, benchmark_txt) { expect_golden("benchmark.txt", to_text_table(benchmark_rows())); }

TEST(Terminal, the_summary_line_counts_verdicts) {
  EXPECT_EQ(terminal_summary(small_record()),
            "fairdraw: 3 passed, 1 failed, 1 underpowered, 1 skipped, 1 error");
  EXPECT_EQ(terminal_summary(harness::RunRecord()),
            "fairdraw: 0 passed, 0 failed, 0 underpowered, 0 skipped, 0 error");
}

TEST(Terminal, hostile_text_stays_on_its_line_and_moves_no_cursor) {
  const harness::RunRecord record = nasty_record();
  for (const harness::CaseRecord& one : record.cases) {
    for (const char c : terminal_line(one)) {
      ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) << static_cast<int>(c);
    }
  }
  const std::string text = to_terminal(record);
  // The text has three groups of one failed case each, with a heading, a line and a replay line.
  // The group with a cause also has the reason and the name, and the two others the change to make.
  // Further lines are four other cases, all to watch; a note on each of two samplers, and the
  // findings of identify on one; and the summary.
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3 * 3 + 2 + 2 + 4 + 2 + 1 + 1);
  for (const char c : text) {
    ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n') << static_cast<int>(c);
  }
}

TEST(Terminal, a_group_lists_some_cases_and_counts_the_others) {
  harness::RunRecord record = green_record(30);
  for (std::size_t i = 0; i < 30; ++i) {
    record.cases[i].verdict = harness::Verdict::failed;
    record.cases[i].replay = "./fairdraw replay x";
  }
  const auto lines_with = [&record](const char* text, const TerminalStyle& style) {
    std::istringstream lines(to_terminal(record, style));
    int found = 0;
    for (std::string line; std::getline(lines, line);) found += line.find(text) != line.npos;
    return found;
  };
  const TerminalStyle usual, all{.listed = 0}, typed{.command = "build/fairdraw"};
  EXPECT_EQ(lines_with("30 of 30 failed cases: These failures match no known bug", usual), 1);
  EXPECT_EQ(lines_with("  failed  ", usual), 10);
  EXPECT_EQ(lines_with("and 20 more", usual), 1);
  EXPECT_EQ(lines_with("replay: ./fairdraw replay x", usual), 1);
  EXPECT_EQ(lines_with("  failed  ", all), 30);
  EXPECT_EQ(lines_with("more", all), 0);
  EXPECT_EQ(lines_with("replay: build/fairdraw replay x", typed), 1);
}

TEST(Terminal, quiet_leaves_out_what_is_neither_red_nor_the_summary) {
  const std::string text = to_terminal(small_record(), {.quiet = true});
  EXPECT_TRUE(text.starts_with("1 of 1 failed case: Only in rows with top_k: lost lane\n")) << text;
  EXPECT_EQ(text.find("watch"), std::string::npos);
  EXPECT_EQ(text.find("note"), std::string::npos);
  EXPECT_TRUE(text.ends_with(terminal_summary(small_record()) + "\n"));
}

TEST(Terminal, colours_change_nothing_else) {
  const harness::RunRecord record = small_record();
  std::string text = to_terminal(record, {.colours = true});
  EXPECT_NE(text.find("\x1b[31mfailed\x1b[0m"), std::string::npos) << text;
  EXPECT_NE(text.find("\x1b[33munderpowered\x1b[0m"), std::string::npos) << text;
  for (std::size_t at = text.find('\x1b'); at != std::string::npos; at = text.find('\x1b')) {
    text.erase(at, text.find('m', at) + 1 - at);
  }
  EXPECT_EQ(text, to_terminal(record));
}

TEST(Markdown, hostile_text_adds_no_line_and_no_cell) {
  const std::string nasty = to_markdown(nasty_record());
  // Each row of the table of all cases has seven unescaped pipes.
  std::istringstream lines(nasty.substr(nasty.find("## All cases")));
  std::string line;
  int rows = 0;
  while (std::getline(lines, line)) {
    if (line.empty() || line[0] != '|') continue;
    ++rows;
    EXPECT_EQ(std::count(line.begin(), line.end(), '|'), 7) << line;
  }
  EXPECT_EQ(rows, 2 + 7);
}

TEST(Markdown, is_no_larger_than_github_shows_and_names_what_is_left_out) {
  harness::RunRecord record = green_record(20'000);
  for (harness::CaseRecord& one : record.cases) {
    one.verdict = harness::Verdict::failed;
    one.watch = "suspicious";
  }
  const std::string text = to_markdown(record);
  EXPECT_LE(text.size(), std::size_t{1} << 20);
  // Each list gets some room, and says how much is left out.
  for (const char* heading : {"## What went wrong", "## Watch", "## All cases"}) {
    const std::size_t from = text.find(heading);
    ASSERT_NE(from, std::string::npos) << heading;
    const std::size_t to = std::min(text.find("\n## ", from), text.size());
    EXPECT_GT(to - from, std::size_t{50'000}) << heading;
    EXPECT_NE(text.substr(from, to - from).find(" more: index.html"), std::string::npos) << heading;
  }
  record.cases.resize(1);
  record.cases[0].message = std::string(3 << 20, 'x');
  EXPECT_LE(to_markdown(record).size(), std::size_t{1} << 20);
}

TEST(Html, a_long_run_stays_a_page_that_opens) {
  // The page may have 2 MB for a gate run of about 2,500 cases and 20 MB for 10^5 cases, which is
  // 200 bytes per case.
  EXPECT_LE(to_html(green_record(2'500)).size(), std::size_t{2'000'000});
  const std::string small = to_html(green_record(10'001)), large = to_html(green_record(20'001));
  EXPECT_LE((large.size() - small.size()) / 10'000, std::size_t{20'000'000 / 100'000});
  EXPECT_LE(to_html(red_record(1000)).size(), std::size_t{3'000'000});
}

TEST(PageFiles, names_are_replaced_and_values_are_left_as_they_are) {
  EXPECT_EQ(page::filled("{{a}} and {{b}}, {{a}}", {{"a", "{{b}}"}, {"b", "2"}}),
            "{{b}} and 2, {{b}}");
  EXPECT_EQ(page::filled("no name {", {}), "no name {");
  EXPECT_THROW((void)page::filled("{{a}}", {}), std::logic_error);
  EXPECT_THROW((void)page::filled("{{a}}", {{"a", "1"}, {"b", "2"}}), std::logic_error);
}

TEST(Html, one_case_alone_and_doubtful_causes_blame_no_engine) {
  harness::RunRecord record = evidence_record();
  record.cases.resize(1);
  record.cases[0].verdict = harness::Verdict::failed;
  record.cases[0].evidence.suspects = {{std::string(harness::engine_bugs().front().suspect), ""}};
  const auto cites = [&record] {
    return data_of(to_html(record)).find("\"engines\":[[") != std::string::npos;
  };
  EXPECT_FALSE(cites());
  record.cases.push_back(record.cases[0]);
  EXPECT_TRUE(cites());
  // One of five failed cases names another mistake.
  for (int i = 0; i < 3; ++i) record.cases.push_back(record.cases[0]);
  record.cases.back().evidence.suspects = {{"top_k: ignored", ""}};
  EXPECT_FALSE(cites());
}

TEST(Html, the_same_record_gives_the_same_bytes) {
  EXPECT_EQ(to_html(evidence_record(), sample_extras()),
            to_html(evidence_record(), sample_extras()));
  EXPECT_EQ(to_html(nasty_record()), to_html(nasty_record()));
}

}  // namespace
}  // namespace fairdraw::reports
