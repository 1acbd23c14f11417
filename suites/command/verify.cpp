// verify: run a suite, write the report, end with its exit code.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "harness/contract/usage_error.h"
#include "harness/run/parallel.h"
#include "reports/report.h"
#include "suites/command/app.h"
#include "suites/command/progress.h"
#include "suites/command/record_files.h"
#include "suites/command/run_options.h"
#include "suites/command/verbs.h"

namespace fairdraw::cli {
namespace {

struct VerifyOptions {
  RunOptions run;
  std::string suite = "gate";
  std::string shard = "1/1";
  std::string report = "fairdraw-report";
  std::string case_glob;
  int jobs = 0;
  bool github = false;
};

// Before a run of minutes, not after it: can the report be written?
void expect_writable(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::filesystem::path probe = folder / ".fairdraw-probe";
  bool writable = !error && std::filesystem::is_directory(folder);
  if (writable) writable = static_cast<bool>(std::ofstream(probe) << "probe");
  if (!writable) {
    throw harness::UsageError(fmt::format("--report: cannot write into '{}'{}", folder.string(),
                                          error ? ": " + error.message() : std::string()));
  }
  std::filesystem::remove(probe, error);
}

int verify(const VerifyOptions& options) {
  const suites::Suite suite = suites::suite_from_name(options.suite);
  suites::PlanOptions planned = plan_options(options.run);
  planned.suite = suite;
  parse_shard(options.shard, planned);
  if (!options.case_glob.empty()) planned.case_glob = options.case_glob;
  const suites::Plan plan = suites::make_plan(planned);
  expect_writable(options.report);

  const unsigned threads = harness::threads_of(static_cast<unsigned>(options.jobs));
  fmt::print("fairdraw {}: suite {}, {} cases, seed {} ({})\n", FAIRDRAW_VERSION, options.suite,
             plan.jobs.size(), planned.seed, planned.seed_source);
  const harness::RunRecord record = suites::run_plan(plan, planned, threads, make_progress());
  reports::write_report(options.report, record);
  print_outcome(record);
  if (options.github) publish_to_github(record);
  fmt::print("{:.1f} s, {} draws, report in {}\n", record.seconds, record.draws,
             std::filesystem::path(options.report).string());
  return record.exit_code();
}

}  // namespace

Verb add_verify(App& app) {
  const auto options = std::make_shared<VerifyOptions>();
  add_run_options(app, options->run);
  app.add_option("--suite", options->suite, "smoke (seconds), gate (two minutes), nightly (hours)")
      ->type_name("SUITE")
      ->capture_default_str();
  app.add_option("--case", options->case_glob,
                 "Only the cases whose id matches; * and ? match any characters")
      ->type_name("GLOB");
  app.add_option("--shard", options->shard, "Part I of N of the run; the parts make the whole")
      ->type_name("I/N")
      ->capture_default_str();
  app.add_option("--report", options->report, "Folder for report.json, index.html and the others")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_option("--jobs", options->jobs, "Cases at a time (default: one a core)")
      ->type_name("N")
      ->range(1, 1024);
  app.add_flag("--github", options->github, "Annotations and step summary of GitHub Actions");
  return [options] { return verify(*options); };
}

}  // namespace fairdraw::cli
