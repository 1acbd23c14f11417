// verify: run a suite, write the report, end with its exit code.
#include <fmt/format.h>

#include <exception>
#include <memory>

#include "harness/run/parallel.h"
#include "reports/report.h"
#include "suites/command/app.h"
#include "suites/command/output.h"
#include "suites/command/progress.h"
#include "suites/command/record_files.h"
#include "suites/command/run_options.h"
#include "suites/command/signals.h"
#include "suites/command/stoppable_run.h"
#include "suites/command/verbs.h"
#include "suites/gate/cases/complete_record.h"

namespace fairdraw::cli {
namespace {

constexpr int kExitUsage = 2;

struct VerifyOptions {
  RunOptions run;
  std::string suite = "gate";
  std::string shard = "1/1";
  std::string report = "fairdraw-report";
  std::string case_glob;
  std::vector<std::string> exclude;
  std::string run_id;
  int jobs = 0;
  double run_seconds = 0;
  bool github = false;
  std::string command;  ///< how the program was called
  Verbosity verbosity;
};

std::string name_of(const harness::CaseRecord& record) {
  return fmt::format("{} on {}", record.id, record.sampler);
}

void publish(const VerifyOptions& options, const harness::RunRecord& record) {
  write_report(options.report, record);
  print_outcome(record, options.command, options.verbosity);
  if (options.github) publish_to_github(record);
  if (options.verbosity.quiet) return;
  print("{:.1f} s, {} draws, report in {}\n", record.seconds, record.draws, options.report);
}

int verify(const VerifyOptions& options) {
  expect_one_verbosity(options.verbosity);
  const StopSignals stoppable;
  // Before anything is wrong with the call, or a plugin is loaded, and can end this process.
  withdraw_report(options.report);
  const suites::Suite suite = suites::suite_from_name(options.suite);
  suites::PlanOptions planned = plan_options(options.run);
  planned.suite = suite;
  planned.run_seconds = options.run_seconds;
  parse_shard(options.shard, planned);
  if (!options.case_glob.empty()) planned.case_glob = options.case_glob;
  planned.exclude = options.exclude;
  const suites::Plan plan = suites::make_plan(planned);

  const unsigned threads = harness::threads_of(static_cast<unsigned>(options.jobs));
  if (!options.verbosity.quiet) {
    print("fairdraw {}: suite {}, {} cases, seed {} ({})\n", FAIRDRAW_VERSION, options.suite,
          plan.jobs.size(), planned.seed, planned.seed_source);
    flush_out();
  }
  // Threads that are left over use it too.
  const auto progress =
      std::make_shared<RunProgress>(plan.jobs.size(), options.verbosity, "failed");
  planned.begun = [progress](const harness::CaseRecord& record) {
    progress->begun(name_of(record));
  };
  const auto ended = [progress](const harness::CaseRecord& record, std::size_t, std::size_t) {
    const bool red =
        record.verdict == harness::Verdict::failed || record.verdict == harness::Verdict::error;
    progress->ended(name_of(record), reports::terminal_line(record), red);
  };
  StoppableRun run = run_until_signal(plan, planned, threads, ended);
  progress->close();
  if (!options.run_id.empty()) run.record.environment[suites::kRunId] = options.run_id;
  if (!run.threads_left) {
    publish(options, run.record);
    return run.record.exit_code();
  }
  // Nothing may return or throw from here on: threads use the plan.
  try {
    publish(options, run.record);
  } catch (const std::exception& error) {
    print_error("fairdraw: {}\n", safe_text(error.what()));
    end_process(kExitUsage);
  }
  end_process(run.record.exit_code());
}

}  // namespace

Verb add_verify(App& app) {
  const auto options = std::make_shared<VerifyOptions>();
  options->command = app.command();
  add_run_options(app, options->run);
  app.add_option("--suite", options->suite, "smoke (seconds), gate (two minutes), nightly (hours)")
      ->type_name("SUITE")
      ->capture_default_str();
  app.add_option("--case", options->case_glob,
                 "Only the cases whose id matches; * and ? match any characters")
      ->type_name("GLOB");
  app.add_option("--exclude", options->exclude,
                 "Leave out the cases whose id matches; repeatable. The report says so")
      ->type_name("GLOB")
      ->expected(1)
      ->take_all();
  app.add_option("--shard", options->shard, "Part I of N of the run; the parts make the whole")
      ->type_name("I/N")
      ->capture_default_str();
  app.add_option("--report", options->report, "Folder for report.json, index.html and the others")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_option(
         "--run-id", options->run_id,
         "Name of this run, for `report` and `merge --require-run-id`: a CI system's number")
      ->type_name("TEXT");
  app.add_option("--jobs", options->jobs, "Cases at a time (default: one a core)")
      ->type_name("N")
      ->range(1, 1024);
  app.add_option("--run-timeout", options->run_seconds,
                 "Seconds that the cases may take together; what is left then is reported as not "
                 "run, which is an error (default: no limit)")
      ->type_name("N")
      ->range(1e-3, 1e9);
  app.add_flag("--github", options->github, "Annotations and step summary of GitHub Actions");
  add_verbosity(app, options->verbosity, "case");
  return [options] {
    return with_plugins(options->run.plugins, samplers_of(options->run),
                        [options] { return verify(*options); });
  };
}

}  // namespace fairdraw::cli
