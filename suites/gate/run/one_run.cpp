#include "suites/gate/run/one_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/contract/usage_error.h"

namespace fairdraw::suites {
namespace {

using harness::RunRecord;
using harness::UsageError;

std::string described(const std::vector<harness::SamplerRecord>& samplers) {
  std::vector<std::string> texts;
  for (const harness::SamplerRecord& sampler : samplers) {
    texts.push_back(fmt::format("{} {} ({})", sampler.name, sampler.version, sampler.semantics));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> common_facts(const RunRecord& record) {
  return {{"seed", fmt::format("{} ({})", record.seed, record.seed_source)},
          {"commit", record.commit},
          {"suite", record.suite},
          {"version", record.tool_version},
          {"samplers", described(record.samplers)},
          {"choice of cases", record.selection},
          {"options", record.options},
          {"cases in all", record.planned == 0 ? "" : fmt::format("{}", record.planned)},
          {"error budget", fmt::format("{} over {} cases", record.error_budget.false_alarm_rate,
                                       record.error_budget.statistical_cases)}};
}

void expect_same_run(const NamedRecord& one, const NamedRecord& other,
                     const std::set<std::string>& but) {
  const auto facts = common_facts(one.record), others = common_facts(other.record);
  for (std::size_t i = 0; i < facts.size(); ++i) {
    if (facts[i].second == others[i].second || but.contains(facts[i].first)) continue;
    throw UsageError(fmt::format("{} and {} are not of one run: {} '{}' and '{}'", one.name,
                                 other.name, facts[i].first, facts[i].second, others[i].second));
  }
}

std::map<std::string, std::string> joined_environments(
    const std::vector<const NamedRecord*>& records) {
  std::map<std::string, std::vector<std::string>> texts;
  std::map<std::string, std::size_t> named;
  for (const NamedRecord* one : records) {
    for (const auto& [name, text] : one->record.environment) {
      std::vector<std::string>& known = texts[name];
      if (std::ranges::find(known, text) == known.end()) known.push_back(text);
      ++named[name];
    }
  }
  std::map<std::string, std::string> joined;
  for (const auto& [name, known] : texts) {
    if (name == kRunId && (known.size() > 1 || named[name] < records.size())) continue;
    joined[name] = fmt::format("{}", fmt::join(known, "; "));
  }
  return joined;
}

}  // namespace fairdraw::suites
