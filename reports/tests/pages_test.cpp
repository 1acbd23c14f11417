// What people and CI systems read, against stored pages. Whether the pages are well formed and
// whether hostile text stays text is for parsers that are not ours: check_pages.py.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "reports/escape.h"
#include "reports/report.h"
#include "sample_records.h"

namespace fairdraw::reports {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream) << path;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// On a difference the page is left beside the build, with the command that stores it.
void expect_golden(const std::string& name, const std::string& page) {
  const auto golden = std::filesystem::path(FAIRDRAW_GOLDEN) / name;
  if (std::filesystem::exists(golden) && content(golden) == page) return;
  const auto actual = std::filesystem::path(testing::TempDir()) / ("actual_" + name);
  std::ofstream(actual, std::ios::binary) << page;
  ADD_FAILURE() << "the page differs from the stored one; if the new one is right:\n  cp "
                << actual.string() << " " << golden.string();
}

TEST(Golden, report_json) { expect_golden("report.json", to_json(small_record())); }
TEST(Golden, junit_xml) { expect_golden("junit.xml", to_junit_xml(small_record())); }
TEST(Golden, summary_md) { expect_golden("summary.md", to_markdown(small_record())); }
TEST(Golden, index_html) { expect_golden("index.html", to_html(small_record())); }
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
  // A line a case, a replay line under each of the three red ones, the summary.
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7 + 3 + 1);
}

TEST(Markdown, hostile_text_adds_no_line_and_no_cell) {
  const std::string nasty = to_markdown(nasty_record());
  // The table of all cases has seven unescaped pipes a row.
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

TEST(Html, the_same_record_gives_the_same_bytes) {
  EXPECT_EQ(to_html(nasty_record()), to_html(nasty_record()));
}

}  // namespace
}  // namespace fairdraw::reports
