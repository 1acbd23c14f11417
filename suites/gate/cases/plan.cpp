#include "suites/gate/cases/plan.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string_view>

#include "harness/contract/semantics_text.h"
#include "harness/contract/usage_error.h"
#include "harness/statistics/statistics.h"
#include "reference/semantics.h"
#include "suites/gate/cases/complete_record.h"
#include "suites/gate/cases/run_case.h"
#include "suites/gate/cases/shell_word.h"

namespace fairdraw::suites {
namespace {

using harness::UsageError;

struct Judged {
  std::string name;
  harness::SamplerDescription description;
  reference::Semantics semantics;
};

std::vector<Judged> describe_samplers(const PlanOptions& options) {
  std::vector<Judged> samplers;
  std::set<std::string> seen;
  for (const std::string& name : options.samplers) {
    if (!seen.insert(name).second) {
      throw UsageError(fmt::format("--sampler: '{}' is given twice", name));
    }
    Judged judged{name, options.make_sampler(name)->description(), {}};
    judged.semantics =
        harness::semantics_from_text(options.semantics.value_or(judged.description.semantics));
    samplers.push_back(std::move(judged));
  }
  return samplers;
}

// Plugins have nothing in common but how they are loaded.
std::string_view family(std::string_view sampler) {
  if (sampler.starts_with("plugin:")) return sampler;
  return sampler.substr(0, sampler.find(':'));
}

// Cases of many draws are judged for one of several samplers whose exact cases prove that they
// give the same bits: "cpu" represents "cpu:avx2" then.
bool stands_for(const std::vector<Judged>& samplers, std::size_t at) {
  const Judged& judged = samplers[at];
  if (!judged.description.exact_integer) return false;
  return std::any_of(samplers.begin(), samplers.begin() + static_cast<std::ptrdiff_t>(at),
                     [&judged](const Judged& earlier) {
                       return earlier.description.exact_integer &&
                              family(earlier.name) == family(judged.name);
                     });
}

bool matches(const PlanOptions& options, const std::string& id) {
  return !options.case_glob || fnmatch(options.case_glob->c_str(), id.c_str(), 0) == 0;
}

void expect_known_case(const PlanOptions& options, const std::vector<Case>& table) {
  if (!options.case_glob || options.case_glob->find_first_of("*?[") != std::string::npos) return;
  std::vector<std::string> ids;
  for (const Case& entry : table) ids.push_back(entry.id);
  if (std::find(ids.begin(), ids.end(), *options.case_glob) != ids.end()) return;
  throw UsageError(
      fmt::format("unknown case '{}' in suite {}; `fairdraw list cases` shows them all",
                  *options.case_glob, to_string(options.suite)));
}

}  // namespace

Plan make_plan(const PlanOptions& options) {
  if (options.shards < 1 || options.shard < 1 || options.shard > options.shards) {
    throw UsageError(fmt::format("--shard: {}/{} is out of range; I/N with 1 <= I <= N is allowed",
                                 options.shard, options.shards));
  }
  const std::vector<Judged> samplers = describe_samplers(options);
  if (options.against) options.make_sampler(*options.against);  // an unknown name ends the run here
  const std::vector<Case> table = case_table(options.suite, options.captured);
  expect_known_case(options, table);

  struct Entry {
    const Case* entry;
    const Judged* sampler;
  };
  std::vector<Entry> entries;
  std::uint64_t statistical = 0;
  for (const Case& entry : table) {
    if (options.against && !is_comparable(entry)) continue;
    for (std::size_t i = 0; i < samplers.size(); ++i) {
      if (entry.once && stands_for(samplers, i)) continue;
      if (is_statistical(entry.check)) ++statistical;
      if (matches(options, entry.id)) entries.push_back({&entry, &samplers[i]});
    }
  }

  Plan plan;
  plan.statistical_cases = options.statistical_cases > 0 ? options.statistical_cases
                                                         : std::max(kStatisticalCases, statistical);
  const double share = statistics::ErrorLedger(plan.statistical_cases).case_share();
  for (const Judged& judged : samplers) {
    plan.samplers.push_back({judged.name, judged.description.version, judged.semantics.name});
  }
  std::string more = options.replay_options;
  if (options.against) more += " --against " + shell_word(*options.against);
  if (plan.statistical_cases != kStatisticalCases) {
    more += fmt::format(" --statistical-cases {}", plan.statistical_cases);
  }
  for (std::size_t i = options.shard - 1; i < entries.size(); i += options.shards) {
    const Judged& judged = *entries[i].sampler;
    const std::string name = judged.name;
    const auto factory = [&options](const std::string& of) {
      return [maker = options.make_sampler, of] { return maker(of); };
    };
    const Case& entry = *entries[i].entry;
    harness::Job job =
        options.against
            ? make_comparison(entry, name, factory(name), factory(*options.against),
                              judged.semantics, options.seed, share)
            : make_job(entry, name, factory(name), judged.semantics, options.seed, share);
    job.record.replay = fmt::format(
        "./fairdraw replay {} --sampler {} --seed {}{}{}", job.record.id, shell_word(name),
        options.seed, options.semantics ? " --semantics " + shell_word(*options.semantics) : "",
        more);
    plan.jobs.push_back(std::move(job));
  }
  return plan;
}

harness::RunRecord run_plan(const Plan& plan, const PlanOptions& options, unsigned threads,
                            const harness::Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  harness::RunRecord record;
  record.tool_version = FAIRDRAW_VERSION;
  record.suite = to_string(options.suite);
  record.seed = options.seed;
  record.seed_source = options.seed_source;
  record.shard = fmt::format("{}/{}", options.shard, options.shards);
  record.environment = harness::host_environment();
  record.commit = options.commit;
  record.selection = options.case_glob.value_or("");
  if (options.semantics) {
    record.options = " --semantics " + shell_word(*options.semantics);
  }
  record.options += options.replay_options;
  if (options.against) record.options += " --against " + shell_word(*options.against);
  record.samplers = plan.samplers;
  record.error_budget.statistical_cases = plan.statistical_cases;
  record.cases = harness::run_jobs(plan.jobs, threads, progress);
  complete_record(record);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  record.seconds = elapsed.count();
  return record;
}

}  // namespace fairdraw::suites
