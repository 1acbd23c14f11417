// Workflow commands of GitHub Actions are lines in a job's log, which GitHub shows as annotations
// at the commit.
#include <fmt/format.h>

#include "reports/coverage.h"
#include "reports/escape.h"
#include "reports/report.h"
#include "reports/wording.h"

namespace fairdraw::reports {
namespace {

/// GitHub shows at most ten annotations of a kind per step. Each check has one annotation, so that
/// no check hides another.
constexpr std::size_t kMaxAnnotations = 10;
constexpr std::size_t kMaxDeclarations = 4;  ///< maximum in a notice

/// Returns a text as a value in a workflow command. terminal_text has removed line breaks and
/// control characters, and '%' begins GitHub's own escapes. In a workflow command, a property ends
/// at ',' and the data at '::'.
std::string command_text(std::string_view text, bool property) {
  std::string safe;
  for (const char c : terminal_text(text)) {
    switch (c) {
      case '%':
        safe += "%25";
        break;
      case ':':
        safe += property ? "%3A" : ":";
        break;
      case ',':
        safe += property ? "%2C" : ",";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

struct Group {
  std::string check;
  const harness::CaseRecord* first = nullptr;
  std::uint64_t cases = 0;
};

std::vector<Group> by_check(const std::vector<const harness::CaseRecord*>& cases) {
  std::vector<Group> groups;
  for (const harness::CaseRecord* one : cases) {
    Group* known = nullptr;
    for (Group& group : groups) {
      if (group.check == one->check) known = &group;
    }
    if (known == nullptr) {
      groups.push_back({one->check, one, 0});
      known = &groups.back();
    }
    ++known->cases;
  }
  return groups;
}

void annotate(const char* kind, const char* what, const std::vector<Group>& groups,
              std::string (*message)(const harness::CaseRecord&), std::string& text) {
  std::uint64_t left_out = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Group& group = groups[i];
    if (groups.size() > kMaxAnnotations && i + 1 >= kMaxAnnotations) {
      left_out += group.cases;
      continue;
    }
    const std::string more =
        group.cases == 1 ? std::string() : fmt::format(" (and {} more)", grouped(group.cases - 1));
    text += fmt::format("::{} title={}::{}\n", kind,
                        command_text(fmt::format("fairdraw: {} {}", group.check, what), true),
                        command_text(fmt::format("{} on {}: {}{}", group.first->id,
                                                 group.first->sampler, message(*group.first), more),
                                     false));
  }
  if (left_out > 0) {
    text += fmt::format("::{} title=fairdraw::{} more cases of other checks\n", kind,
                        grouped(left_out));
  }
}

}  // namespace

std::string to_annotations(const harness::RunRecord& record) {
  std::string text;
  if (!record.incomplete.empty()) {
    text += fmt::format("::error title=fairdraw: the run is incomplete::{}\n",
                        command_text(record.incomplete, false));
  }
  for (const std::string& unmet : harness::unmet_requirements(record)) {
    text += fmt::format("::error title=fairdraw: not judged::{}\n", command_text(unmet, false));
  }
  std::size_t notices = 0;
  for (const harness::Coverage& coverage : harness::coverage_of(record)) {
    const bool is_whole = coverage.not_judged().empty() && coverage.places.empty();
    if (is_whole || ++notices > kMaxAnnotations) continue;
    const std::string declare = declare_sentence(coverage, kMaxDeclarations);
    text += fmt::format(
        "::notice title=fairdraw: coverage::{}\n",
        command_text(fmt::format("{}: {}{}", coverage.sampler, coverage_sentence(coverage, record),
                                 declare.empty() ? "" : ". Declare next: " + declare),
                     false));
  }
  annotate(
      "error", "is red", by_check(red_cases(record)),
      [](const harness::CaseRecord& one) {
        return one.replay.empty() ? one.message : one.message + " Replay with: " + one.replay;
      },
      text);
  annotate(
      "warning", "is to be watched", by_check(watched_cases(record)),
      [](const harness::CaseRecord& one) { return one.watch; }, text);
  return text;
}

}  // namespace fairdraw::reports
