#include "suites/gate/cases/global_case.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "harness/statistics/combination.h"

namespace fairdraw::suites {
namespace {

constexpr double kPearsonCells = 10;

bool has_valid_p_value(const harness::CaseRecord& record) {
  if (!record.p_value) return false;
  if (record.check == "binomial" || record.check == "pit") return true;
  const auto cells = record.measures.find("cells");
  return record.check == "chi_squared" && cells != record.measures.end() &&
         cells->second >= kPearsonCells;
}

}  // namespace

std::optional<harness::CaseRecord> global_case(std::span<const harness::CaseRecord> cases,
                                               const harness::SamplerRecord& sampler,
                                               double level) {
  std::vector<double> p_values;
  harness::CaseRecord global;
  double fisher = 0;
  for (const harness::CaseRecord& record : cases) {
    if (record.sampler != sampler.name || !has_valid_p_value(record)) continue;
    p_values.push_back(*record.p_value);
    fisher -= 2 * std::log(*record.p_value);
  }
  if (p_values.size() < 2) return std::nullopt;
  global.id = global.check = harness::kGlobalCheck;
  global.sampler = sampler.name;
  global.semantics = sampler.semantics;
  global.statistic = fisher;
  global.dof = 2 * static_cast<double>(p_values.size());
  global.p_value = statistics::global_p_value(p_values);
  global.measures["alpha"] = level;
  global.spend(level);
  const bool passed = *global.p_value >= level;
  global.verdict = passed ? harness::Verdict::passed : harness::Verdict::failed;
  global.message = passed
                       ? fmt::format("{} cases together: Fisher's statistic {:.1f}, expected {}",
                                     p_values.size(), fisher, *global.dof)
                       : fmt::format(
                             "{} cases together: Fisher's statistic {:.1f}, expected {} (p {:.2e}, "
                             "level {:.1e}): a bias too small for each of them",
                             p_values.size(), fisher, *global.dof, *global.p_value, level);
  return global;
}

}  // namespace fairdraw::suites
