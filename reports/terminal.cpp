#include <fmt/format.h>

#include <algorithm>

#include "reports/escape.h"
#include "reports/report.h"
#include "reports/wording.h"

namespace fairdraw::reports {

namespace {

constexpr int kVerdictWidth = 12;  // of "underpowered", the longest

}  // namespace

std::string terminal_line(const harness::CaseRecord& record) {
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
                     counts.error) +
         (record.incomplete.empty() ? "" : "; INCOMPLETE: " + terminal_text(record.incomplete));
}

std::string terminal_notes(const harness::RunRecord& record) {
  constexpr std::size_t kMaxCauses = 3;
  std::string text;
  const std::vector<SuspectedBug> causes = suspected_bugs(record);
  for (std::size_t i = 0; i < std::min(causes.size(), kMaxCauses); ++i) {
    text += fmt::format("{:<{}}  {} in {} of {} failed cases: {}\n", "looks like", kVerdictWidth,
                        terminal_text(causes[i].bug), grouped(causes[i].cases),
                        grouped(record.summary().failed), terminal_text(causes[i].reason));
  }
  for (const harness::SamplerRecord& sampler : record.samplers) {
    for (const std::string& note : sampler.notes) {
      text += fmt::format("{:<{}}  {}  {}\n", "note", kVerdictWidth, terminal_text(sampler.name),
                          terminal_text(note));
    }
  }
  return text;
}

std::string to_terminal(const harness::RunRecord& record) {
  std::string text;
  for (const harness::CaseRecord& one : record.cases) {
    text += terminal_line(one) + "\n";
    if (is_red(one) && !one.replay.empty()) {
      text += "  replay: " + terminal_text(one.replay) + "\n";
    }
  }
  return text + terminal_notes(record) + terminal_summary(record) + "\n";
}

}  // namespace fairdraw::reports
