// The tests require that a run that ended before all its cases were run is marked as incomplete in
// every report, and shown nowhere as passed.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "reports/report.h"
#include "reports/tests/sample_records.h"
#include "reports/wording.h"

namespace fairdraw::reports {
namespace {

constexpr const char* kReason = "stopped by SIGTERM after 2 of 9 cases";

/// Returns a run of two passed cases, which would count as passed without the mark.
harness::RunRecord stopped_run() {
  harness::RunRecord record = small_record();
  record.cases.resize(2);
  if (!record.places.empty()) record.places.resize(2);
  record.draws = record.cases[0].draws + record.cases[1].draws;
  record.incomplete = kReason;
  return record;
}

bool says(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

TEST(IncompleteRun, is_not_green) {
  harness::RunRecord record = stopped_run();
  EXPECT_EQ(record.exit_code(), 3);
  EXPECT_NE(run_verdict(record), harness::Verdict::passed);
  record.incomplete.clear();
  EXPECT_EQ(record.exit_code(), 0);
  // A failed case takes precedence over the incomplete run.
  record = small_record();
  record.incomplete = kReason;
  EXPECT_EQ(record.exit_code(), 1);
}

TEST(IncompleteRun, says_so_in_every_medium) {
  const harness::RunRecord record = stopped_run();
  EXPECT_EQ(verdict_sentence(record),
            std::string("Incomplete: ") + kReason + ". Of the cases that ran: All 2 cases passed.");
  const std::string page = to_html(record);
  EXPECT_TRUE(says(page, "<title>fairdraw: incomplete</title>"));
  EXPECT_TRUE(says(page, std::string("<h1>Incomplete: ") + kReason));
  EXPECT_FALSE(says(page, "<header class=\"passed\">"));
  const std::string markdown = to_markdown(record);
  EXPECT_TRUE(markdown.starts_with("# fairdraw: incomplete\n\nIncomplete: ")) << markdown;
  const std::string junit = to_junit_xml(record);
  EXPECT_TRUE(says(junit, "<testsuites name=\"fairdraw\" tests=\"3\" failures=\"0\" errors=\"1\""));
  EXPECT_TRUE(says(junit, std::string("<error type=\"incomplete\" message=\"") + kReason + "\">"));
  EXPECT_EQ(terminal_summary(record),
            std::string("fairdraw: 2 passed, 0 failed, 0 underpowered, 0 skipped, 0 error; "
                        "INCOMPLETE: ") +
                kReason);
  EXPECT_TRUE(says(to_annotations(record),
                   std::string("::error title=fairdraw: the run is incomplete::") + kReason));
}

TEST(IncompleteRun, comes_back_from_its_file) {
  EXPECT_EQ(from_json(to_json(stopped_run())).incomplete, kReason);
  EXPECT_EQ(to_json(from_json(to_json(stopped_run()))), to_json(stopped_run()));
}

TEST(IncompleteRun, a_hostile_reason_stays_text) {
  harness::RunRecord record = stopped_run();
  record.incomplete = nasty_text();
  EXPECT_FALSE(says(to_html(record), "<b onload"));
  EXPECT_FALSE(says(to_junit_xml(record), "<b onload"));
  EXPECT_FALSE(says(to_markdown(record), "<b onload"));
  for (const char c : terminal_summary(record)) {
    EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
  const std::string annotation = to_annotations(record);
  EXPECT_EQ(annotation.find('\n'), annotation.size() - 1);
}

}  // namespace
}  // namespace fairdraw::reports
