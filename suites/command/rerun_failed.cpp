#include "suites/command/rerun_failed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "harness/contract/usage_error.h"
#include "harness/plugin/plugin_sampler.h"

namespace fairdraw::cli {
namespace {

// Returns whether a case failed or had an error. The global case does not count, because it does
// not belong to a suite.

bool has_failed(const harness::CaseRecord& one) {
  return one.check != harness::kGlobalCheck &&
         (one.verdict == harness::Verdict::failed || one.verdict == harness::Verdict::error);
}

// Returns the names of the options in a text, such as "--semantics" and "--logits" for "--semantics
// hf --logits a.npy".
std::set<std::string> names_of(const std::string& options) {
  constexpr std::string_view kBegin = " --";
  std::set<std::string> names;
  for (std::size_t at = options.find(kBegin); at != std::string::npos;
       at = options.find(kBegin, at + 1)) {
    names.insert(options.substr(at + 1, options.find(' ', at + 1) - at - 1));
  }
  return names;
}

}  // namespace

void plan_rerun(const std::string& path, const harness::RunRecord& record, const RunOptions& given,
                suites::PlanOptions& planned) {
  std::set<std::pair<std::string, std::string>> failed;
  std::set<std::string> samplers;
  for (const harness::CaseRecord& one : record.cases) {
    if (!has_failed(one)) continue;
    samplers.insert(one.sampler);
    const bool wanted = given.samplers.empty() ||
                        std::ranges::find(given.samplers, one.sampler) != given.samplers.end();
    if (wanted) failed.emplace(one.id, one.sampler);
  }
  if (samplers.empty()) {
    throw harness::UsageError(fmt::format(
        "--rerun-failed: {}: no case of this report failed, so there is none to run", path));
  }
  if (failed.empty()) {
    throw harness::UsageError(
        fmt::format("--rerun-failed: {}: no case of this report failed on {}; cases failed on {}",
                    path, fmt::join(given.samplers, ", "), fmt::join(samplers, ", ")));
  }
  if (given.samplers.empty()) {
    const auto plugin = std::ranges::find_if(samplers, harness::plugin::is_plugin);
    if (plugin != samplers.end()) {
      throw harness::UsageError(
          fmt::format("--rerun-failed: {}: cases failed on {}; name this sampler with --sampler, "
                      "because a report may not choose which code is loaded",
                      path, *plugin));
    }
    planned.samplers.clear();
    for (const harness::SamplerRecord& sampler : record.samplers) {
      if (samplers.contains(sampler.name)) planned.samplers.push_back(sampler.name);
    }
  }
  if (!given.seed && !given.seed_from) {
    planned.seed = record.seed;
    planned.seed_source = record.seed_source;
  }
  planned.statistical_cases = record.error_budget.statistical_cases;
  planned.failed_before = std::move(failed);
  planned.failed_in = path;
}

void expect_same_options(const std::string& path, const harness::RunRecord& record,
                         const std::string& options) {
  const std::set<std::string> known = names_of(options);
  for (const std::string& name : names_of(record.options)) {
    if (known.contains(name)) continue;
    throw harness::UsageError(
        fmt::format("--rerun-failed: {}: {} is missing, but that run had this option:{}", path,
                    name, record.options));
  }
}

}  // namespace fairdraw::cli
