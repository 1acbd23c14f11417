#include "harness/run/checks/statistical/two_stages.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/run/evidence/pictures.h"

namespace fairdraw::harness {
namespace {

bool is_suspicious(const Finding& finding) {
  return finding.p_value < TwoStages(finding.level).each;
}

bool is_overwhelming(const Finding& finding) {
  return !finding.never_at_once && finding.p_value < TwoStages(finding.level).at_once;
}

}  // namespace

void note_p_values(const std::vector<Finding>& findings, CheckOutcome& outcome) {
  for (const Finding& finding : findings) {
    outcome.measures[finding.name + "_p_value"] = finding.p_value;
  }
}

void judge_in_two_stages(const std::function<std::vector<Finding>(int)>& look,
                         CheckOutcome& outcome) {
  const std::vector<Finding> first = look(0);
  if (outcome.failed()) return;
  for (const Finding& finding : first) {
    note_decisive(finding.name, finding.p_value, finding.level, outcome);
    if (is_suspicious(finding) && outcome.evidence.observed.empty()) {
      outcome.evidence.observed = finding.what;
    }
    outcome.spend(finding.level);
    if (!is_overwhelming(finding)) continue;
    outcome.fail(
        fmt::format("{} (p {:.2e}, level {:.1e})", finding.what, finding.p_value, finding.level));
  }
  if (outcome.failed() || std::none_of(first.begin(), first.end(), is_suspicious)) return;

  const std::vector<Finding> second = look(1);
  if (outcome.failed()) return;
  for (const Finding& finding : first) {
    if (!is_suspicious(finding)) continue;
    const auto again = std::find_if(second.begin(), second.end(), [&finding](const Finding& other) {
      return other.name == finding.name;
    });
    const double p_value = again == second.end() ? 1 : again->p_value;
    if (again != second.end() && is_suspicious(*again)) {
      outcome.fail(fmt::format("{} (p {:.2e}, and {:.2e} on fresh draws, level {:.1e})",
                               finding.what, finding.p_value, p_value, finding.level));
    } else {
      outcome.watch_out(fmt::format("{} (p {:.2e}, but {:.2g} on fresh draws)", finding.what,
                                    finding.p_value, p_value));
    }
  }
}

}  // namespace fairdraw::harness
