// replay: repeats one case, from the replay line of a report or from a capsule of the fuzzer. The
// sampler comes from the command line alone; nothing that a report or a capsule names is loaded.
#include <fmt/format.h>

#include <memory>

#include "harness/contract/sampler.h"
#include "harness/contract/usage_error.h"
#include "suites/command/options.h"
#include "suites/command/output.h"
#include "suites/command/run_options.h"
#include "suites/command/stoppable_run.h"
#include "suites/command/verbs/verbs.h"
#include "suites/gate/fuzz/capsule_files.h"
#include "suites/gate/identify/conditions_seen.h"
#include "suites/gate/identify/profile_sampler.h"

namespace fairdraw::cli {
namespace {

struct ReplayOptions {
  RunOptions run;
  std::string id;
  std::uint64_t statistical_cases = suites::kStatisticalCases;
  std::string sampled;
};

// Returns 0 if the property holds, 1 if it fails as in the capsule, and 3 if it does not apply to
// this sampler.
int replay_capsule(const ReplayOptions& options) {
  if (options.run.samplers.size() != 1) {
    throw harness::UsageError(
        "--sampler: name the sampler for the replay; a capsule cannot choose the sampler");
  }
  if (!options.sampled.empty()) {
    throw harness::UsageError("--sampled: a capsule holds all values of its case itself");
  }
  const suites::fuzz::Capsule capsule = suites::fuzz::load_capsule(options.id);
  const auto sampler = sampler_maker(options.run.plugins)(options.run.samplers.front());
  const reference::Semantics semantics =
      semantics_of(options.run.semantics, sampler->description());
  suites::fuzz::Judgement judgement;
  try {
    judgement = suites::fuzz::replay(capsule, *sampler, semantics);
  } catch (const harness::UsageError& error) {
    throw harness::UsageError(fmt::format("{}: {}", options.id, error.what()));
  }
  const std::string name = fmt::format("{} on {}", capsule.property, sampler->description().name);
  switch (judgement.outcome) {
    case suites::fuzz::Outcome::holds:
      print("passed: {}\n", name);
      return 0;
    case suites::fuzz::Outcome::fails:
      print("failed: {}: {}\n", name, judgement.message);
      return 1;
    case suites::fuzz::Outcome::not_applicable:
      print("skipped: {}: {}\n", name, judgement.message);
      return 3;
  }
  return 3;
}

int replay(const ReplayOptions& options) {
  const EndsWithItsReader watched;
  if (suites::fuzz::is_capsule(options.id)) return replay_capsule(options);
  suites::PlanOptions planned = plan_options(options.run);
  planned.suite = suites::Suite::nightly;  // the suite nightly includes all other suites
  planned.case_glob = options.id;
  planned.statistical_cases = options.statistical_cases;
  if (!options.sampled.empty()) planned.sampled = options.sampled;
  const suites::Plan plan = suites::make_plan(planned);
  harness::RunRecord record = suites::run_plan(plan, planned, 1, {});
  if (!planned.against) suites::ask_failed_samplers(plan.jobs, planned.make_sampler, record);
  for (const harness::CaseRecord& result : record.cases) {
    if (result.verdict == harness::Verdict::passed) {
      print("{}: {}\n", result.id, result.message);
    }
    for (const auto& [name, value] : result.measures) {
      print("    {} = {:.9g}\n", name, value);
    }
  }
  print_outcome(record);
  return record.exit_code();
}

}  // namespace

Verb add_replay(CLI::App& app) {
  const auto options = std::make_shared<ReplayOptions>();
  add_option(
      app, "case", options->id, "CASE|FILE.json",
      "Id of the case, or a capsule that `fairdraw fuzz` saved. A capsule needs one --sampler",
      {.required = true});
  add_run_options(app, options->run);
  add_option(app, "--statistical-cases", options->statistical_cases, "N",
             "Number of cases that share the error budget, as the replay line gives it",
             {.min = 1, .max = std::uint64_t{1} << 40});
  add_option(app, "--sampled", options->sampled, "NAME=VALUE,...",
             "Values that the run's seed chose for the case, as the replay line gives them: "
             "vocabulary, parameters, rows");
  return [options] {
    return with_plugins(options->run.plugins, samplers_of(options->run),
                        [options] { return replay(*options); });
  };
}

}  // namespace fairdraw::cli
