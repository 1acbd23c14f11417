#include <algorithm>

#include "reports/compare.h"
#include "reports/page/data.h"
#include "reports/wording.h"

namespace fairdraw::reports::page {
namespace {

constexpr std::size_t kMaxRuns = 40;     ///< largest number of earlier runs; the newest runs are
                                         ///< kept
constexpr std::size_t kMaxChanges = 20;  ///< per run

Json run_data(const EarlierRun& run, const harness::RunRecord& record) {
  const harness::Summary counts = record.summary();
  const std::string date = date_text(record);
  return {{"name", date.empty() ? run.name : date},    {"page", run.page},
          {"verdict", to_string(run_verdict(record))}, {"commit", record.commit},
          {"red", counts.failed + counts.error},       {"cases", record.cases.size()},
          {"duration", duration_text(record.seconds)}, {"samplers", record.samplers.size()}};
}

Json changes_data(const Comparison& comparison) {
  const auto word = [](const std::optional<harness::Verdict>& verdict) {
    return verdict ? Json(to_string(*verdict)) : Json();
  };
  Json first = Json::array();
  for (const VerdictChange& change : comparison.verdicts) {
    if (first.size() == kMaxChanges) break;
    first.push_back({{"id", change.id},
                     {"sampler", change.sampler},
                     {"base", word(change.base)},
                     {"head", word(change.head)}});
  }
  return {{"compared", comparison.compared},
          {"verdicts", comparison.verdicts.size()},
          {"worse", std::ranges::count_if(comparison.verdicts, &VerdictChange::regression)},
          {"first", std::move(first)}};
}

}  // namespace

Json history_data(const harness::RunRecord& record, const ReportExtras& extras) {
  Json runs = Json::array();
  const harness::RunRecord* before = nullptr;
  const auto add = [&](const EarlierRun& run, const harness::RunRecord& next) {
    runs.push_back(run_data(run, next));
    if (before != nullptr) runs.back()["changes"] = changes_data(compare(*before, next));
    before = &next;
  };
  const std::size_t all = extras.history.size();
  for (std::size_t i = all > kMaxRuns ? all - kMaxRuns : 0; i < all; ++i) {
    add(extras.history[i], extras.history[i].record);
  }
  if (all > 0) add({"this run", "", {}}, record);
  return {{"earlier", all}, {"runs", std::move(runs)}};
}

}  // namespace fairdraw::reports::page
