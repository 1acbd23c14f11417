// replay: one case again, from the line that a report prints. It takes its sampler from the
// command line, and loads nothing that a report names.
#include <CLI/CLI.hpp>
#include <memory>

#include "suites/cli/run_options.h"
#include "suites/cli/verbs.h"

namespace fairdraw::cli {
namespace {

struct ReplayOptions {
  RunOptions run;
  std::string id;
  std::uint64_t statistical_cases = suites::kStatisticalCases;
};

int replay(const ReplayOptions& options) {
  suites::PlanOptions planned = plan_options(options.run);
  planned.suite = suites::Suite::nightly;  // holds all the others
  planned.case_glob = options.id;
  planned.statistical_cases = options.statistical_cases;
  const suites::Plan plan = suites::make_plan(planned);
  const harness::RunRecord record = suites::run_plan(plan, planned, 1, {});
  for (const harness::CaseRecord& result : record.cases) {
    if (result.verdict == harness::Verdict::passed) {
      std::printf("%s: %s\n", result.id.c_str(), result.message.c_str());
    }
    for (const auto& [name, value] : result.measures) {
      std::printf("    %s = %.9g\n", name.c_str(), value);
    }
  }
  print_outcome(record);
  return record.exit_code();
}

}  // namespace

Verb add_replay(CLI::App& app) {
  const auto options = std::make_shared<ReplayOptions>();
  app.add_option("case", options->id, "Id of the case")->required()->type_name("CASE");
  add_run_options(app, options->run);
  app.add_option("--statistical-cases", options->statistical_cases,
                 "Cases that the error budget is shared out to, where the replay line says so")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40))
      ->capture_default_str();
  return [options] { return replay(*options); };
}

}  // namespace fairdraw::cli
