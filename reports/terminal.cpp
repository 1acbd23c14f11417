#include <fmt/format.h>

#include "reports/escape.h"
#include "reports/report.h"
#include "reports/wording.h"

namespace fairdraw::reports {

std::string terminal_line(const harness::CaseRecord& record) {
  constexpr int kVerdictWidth = 12;  // of "underpowered", the longest
  std::string line = fmt::format("{:<{}}  {}  {}", to_string(record.verdict), kVerdictWidth,
                                 terminal_text(record.sampler), terminal_text(record.id));
  if (record.draws > 0) line += fmt::format("  {} draws", grouped(record.draws));
  if (record.p_value) line += "  p " + number_text(record.p_value);
  // A passed case has nothing to add; every other one says why.
  if (record.verdict != harness::Verdict::passed && !record.message.empty()) {
    line += ": " + terminal_text(record.message);
  }
  if (!record.watch.empty()) line += "  watch: " + terminal_text(record.watch);
  return line;
}

std::string terminal_summary(const harness::RunRecord& record) {
  const harness::Summary counts = record.summary();
  return fmt::format("fairdraw: {} passed, {} failed, {} underpowered, {} skipped, {} error",
                     counts.passed, counts.failed, counts.underpowered, counts.skipped,
                     counts.error);
}

std::string to_terminal(const harness::RunRecord& record) {
  std::string text;
  for (const harness::CaseRecord& one : record.cases) {
    text += terminal_line(one) + "\n";
    if (is_red(one) && !one.replay.empty()) {
      text += "  replay: " + terminal_text(one.replay) + "\n";
    }
  }
  return text + terminal_summary(record) + "\n";
}

}  // namespace fairdraw::reports
