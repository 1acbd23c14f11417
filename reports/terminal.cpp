#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "reports/coverage.h"
#include "reports/escape.h"
#include "reports/report.h"
#include "reports/wording.h"

namespace fairdraw::reports {

namespace {

// length of "underpowered", the longest word for a verdict
constexpr int kVerdictWidth = 12;
// limit per line; reports have more of the message
constexpr std::size_t kLongestMessage = 400;
// replay lines in a record begin with this command
constexpr std::string_view kStoredCommand = "./fairdraw ";

constexpr std::string_view kRed = "31", kYellow = "33", kBold = "1";  // parameters of SGR

std::string coloured(std::string_view text, std::string_view colour, const TerminalStyle& style) {
  return style.colours ? fmt::format("\x1b[{}m{}\x1b[0m", colour, text) : std::string(text);
}

std::string notes_text(const harness::RunRecord& record) {
  std::string text;
  for (const harness::SamplerRecord& sampler : record.samplers) {
    if (const std::string seen = seen_text(sampler); !seen.empty()) {
      text += fmt::format("{:<{}}  {}  {}\n", "identify", kVerdictWidth,
                          terminal_text(sampler.name), terminal_text(seen));
    }
    for (const std::string& note : sampler.notes) {
      text += fmt::format("{:<{}}  {}  {}\n", "note", kVerdictWidth, terminal_text(sampler.name),
                          terminal_text(note));
    }
  }
  return text;
}

// Returns the line "coverage mine 12 % of the suite applies to this sampler ...", and the abilities
// to declare next.
std::string coverage_text(const harness::RunRecord& record) {
  constexpr std::size_t kMaxDeclarations = 4;
  std::string text;
  const auto add = [&text](const char* label, const std::string& sampler, const std::string& what) {
    if (what.empty()) return;
    text += fmt::format("{:<{}}  {}  {}\n", label, kVerdictWidth, terminal_text(sampler),
                        terminal_text(what));
  };
  for (const harness::Coverage& coverage : harness::coverage_of(record)) {
    add("coverage", coverage.sampler, coverage_sentence(coverage, record));
    add("declare next", coverage.sampler, declare_sentence(coverage, kMaxDeclarations));
  }
  return text;
}

// Returns a replay line that the reader can type on the machine of the run.
std::string replay_text(const std::string& replay, const TerminalStyle& style) {
  if (!replay.starts_with(kStoredCommand)) return terminal_text(replay);
  return terminal_text(style.command + " " + replay.substr(kStoredCommand.size()));
}

/// Returns a line in the heading of a group, such as " change Keep a token ...".
std::string told(const char* what, const std::string& text) {
  return text.empty() ? ""
                      : fmt::format("  {:<{}}  {}\n", what, kVerdictWidth, terminal_text(text));
}

std::string group_text(const FailureGroup& group, const harness::RunRecord& record,
                       const TerminalStyle& style) {
  const std::size_t all = group.cases.size();
  const std::size_t listed = style.listed == 0 ? all : std::min(all, style.listed);
  const std::string_view colour =
      group.cases.front()->verdict == harness::Verdict::underpowered ? kYellow : kRed;
  std::string text =
      coloured(fmt::format("{}: {}", share_text(group, record), terminal_text(group.text.sentence)),
               kBold, style) +
      "\n";
  if (!style.quiet) {
    text += told("change", group.text.change) + told("because", group.reason) +
            told("cause", group.bug);
  }
  for (std::size_t i = 0; i < listed; ++i) {
    std::string line = terminal_line(*group.cases[i]);
    const std::string verdict = to_string(group.cases[i]->verdict);
    line.replace(0, verdict.size(), coloured(verdict, colour, style));
    text += "  " + line + "\n";
  }
  if (listed < all)
    text += fmt::format("  and {} more; the report lists all of them\n", all - listed);
  const auto replayed = std::ranges::find_if(
      group.cases, [](const harness::CaseRecord* one) { return !one->replay.empty(); });
  if (replayed != group.cases.end()) {
    text += "    replay: " + replay_text((*replayed)->replay, style) + "\n";
  }
  return text;
}

}  // namespace

std::string terminal_line(const harness::CaseRecord& record) {
  std::string line = fmt::format("{:<{}}  {}  {}", to_string(record.verdict), kVerdictWidth,
                                 terminal_text(record.sampler), terminal_text(record.id));
  if (record.draws > 0) line += fmt::format("  {} draws", grouped(record.draws));
  if (record.p_value) line += "  p " + number_text(record.p_value);
  // A passed case needs no message; every other case says why it did not pass.
  if (record.verdict != harness::Verdict::passed && !record.message.empty()) {
    line += ": " + terminal_text(shortened(record.message, kLongestMessage));
  }
  if (!record.watch.empty()) line += "  watch: " + terminal_text(record.watch);
  return line;
}

std::string terminal_summary(const harness::RunRecord& record) {
  const harness::Summary counts = record.summary();
  const std::vector<std::string> unmet = harness::unmet_requirements(record);
  return fmt::format("fairdraw: {} passed, {} failed, {} underpowered, {} skipped, {} error",
                     counts.passed, counts.failed, counts.underpowered, counts.skipped,
                     counts.error) +
         (record.incomplete.empty() ? "" : "; INCOMPLETE: " + terminal_text(record.incomplete)) +
         (unmet.empty()
              ? ""
              : "; NOT JUDGED: " + terminal_text(fmt::format("{}", fmt::join(unmet, "; "))));
}

std::vector<ToldGroup> groups_for_terminal(const harness::RunRecord& record,
                                           const TerminalStyle& style) {
  std::vector<ToldGroup> told;
  for (const FailureGroup& group : failure_groups(record)) {
    ToldGroup& one = told.emplace_back(ToldGroup{group_text(group, record, style), {}});
    for (const harness::CaseRecord* const place : group.cases) {
      one.cases.push_back(static_cast<std::size_t>(place - record.cases.data()));
    }
  }
  return told;
}

std::string to_terminal(const harness::RunRecord& record, const TerminalStyle& style) {
  std::string text;
  for (const ToldGroup& group : groups_for_terminal(record, style)) text += group.text;
  if (!style.quiet) {
    for (const harness::CaseRecord* const one : watched_cases(record)) {
      if (!is_red(*one)) text += terminal_line(*one) + "\n";
    }
    text += notes_text(record) + coverage_text(record);
  }
  return text + terminal_summary(record) + "\n";
}

}  // namespace fairdraw::reports
