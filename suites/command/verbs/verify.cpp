// verify: runs a suite, writes the report, and ends with the exit code of the run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "harness/contract/error_text.h"
#include "harness/contract/usage_error.h"
#include "harness/run/parallel.h"
#include "reports/report.h"
#include "suites/command/options.h"
#include "suites/command/output.h"
#include "suites/command/progress.h"
#include "suites/command/record_files.h"
#include "suites/command/rerun_failed.h"
#include "suites/command/run_options.h"
#include "suites/command/signals.h"
#include "suites/command/stoppable_run.h"
#include "suites/command/verbs/verbs.h"
#include "suites/gate/identify/conditions_seen.h"
#include "suites/gate/run/complete_record.h"

namespace fairdraw::cli {
namespace {

constexpr int kExitUsage = 2;
constexpr const char* kUsualSuite = "gate";

struct VerifyOptions {
  RunOptions run;
  std::optional<std::string> suite;
  std::string shard = "1/1";
  std::string times;
  std::string case_part;
  bool second_look = false;
  std::string report = kUsualReport;
  std::string history;
  std::string case_glob;
  std::vector<std::string> exclude;
  std::string run_id;
  int jobs = 0;
  double run_seconds = 0;
  bool github = false;
  bool fail_fast = false;
  std::string rerun_failed;
  RequiredCoverage required;
  Verbosity verbosity;
};

std::string name_of(const harness::CaseRecord& record) {
  return fmt::format("{} on {}", record.id, record.sampler);
}

std::map<std::string, double> expected_by_name(const suites::Plan& plan) {
  std::map<std::string, double> expected;
  for (std::size_t i = 0; i < plan.jobs.size(); ++i) {
    expected[name_of(plan.jobs[i].record)] = plan.seconds[i];
  }
  return expected;
}

bool has_failed(const harness::CaseRecord& record) {
  return record.verdict == harness::Verdict::failed || record.verdict == harness::Verdict::error;
}

// Prints which cases of a run that ended early are missing: "not run: 31 cases: mask 20, tokens
// 11".
void print_not_run(const harness::RunRecord& record, const suites::Plan& plan) {
  std::map<std::string, std::size_t> left;  // for each check, the number of cases that were not run
  for (const harness::Job& job : plan.jobs) ++left[job.record.check];
  std::size_t all = plan.jobs.size();
  for (const harness::CaseRecord& one : record.cases) {
    --left[one.check];
    --all;
  }
  std::vector<std::string> texts;
  for (const auto& [check, count] : left) {
    if (count > 0) texts.push_back(fmt::format("{} {}", check, count));
  }
  const std::string list = fmt::format("{}", fmt::join(texts, ", "));
  print("not run: {} case{}: {}\n", all, all == 1 ? "" : "s", list);
}

void publish(const VerifyOptions& options, const harness::RunRecord& record,
             const suites::Plan& plan, const reports::ReportExtras& extras) {
  write_report(options.report, record, extras);
  print_outcome(record, options.verbosity);
  if (options.github) publish_to_github(record);
  if (options.verbosity.quiet) return;
  if (!record.incomplete.empty()) print_not_run(record, plan);
  print("{:.1f} s, {} draws, report in {}\n", record.seconds, record.draws, options.report);
}

int verify(const VerifyOptions& options) {
  expect_one_verbosity(options.verbosity);
  const StopSignals stoppable;
  // Earlier files are read and removed first, before an error in the call or in a plugin can end
  // this process.
  std::optional<harness::RunRecord> before;
  std::vector<std::string> inputs;
  for (const std::string& file : {options.rerun_failed, options.times}) {
    if (!file.empty()) inputs.push_back(file);
  }
  withdraw_report(options.report, inputs);
  if (!options.rerun_failed.empty()) before = read_record(options.rerun_failed);
  reports::ReportExtras extras;
  if (!options.history.empty()) extras.history = read_history(options.history, options.report);
  const std::string suite = options.suite.value_or(before ? before->suite : kUsualSuite);
  const suites::Suite known_suite = suites::suite_from_name(suite);
  suites::PlanOptions planned = plan_options(options.run);
  planned.suite = known_suite;
  if (before) plan_rerun(options.rerun_failed, *before, options.run, planned);
  planned.run_seconds = options.run_seconds;
  const harness::CasePart shard = parse_part("--shard", options.shard);
  planned.shard = shard.part;
  planned.shards = shard.parts;
  if (!options.times.empty()) planned.times = suites::CaseTimes(read_record(options.times));
  if (!options.case_part.empty()) planned.part = parse_part("--case-part", options.case_part);
  if (options.second_look && !planned.part) {
    throw harness::UsageError("--second-look: --case-part is missing; --second-look needs it");
  }
  planned.second_look = options.second_look;
  expect_coverage(options.required, planned.shards > 1 ? "--shard"
                                    : planned.part     ? "--case-part"
                                                       : "");
  if (!options.case_glob.empty()) planned.case_glob = options.case_glob;
  planned.exclude = options.exclude;
  const suites::Plan plan = suites::make_plan(planned);
  if (before) {
    expect_same_options(options.rerun_failed, *before, suites::begin_record(plan, planned).options);
  }

  const unsigned threads = harness::threads_of(static_cast<unsigned>(options.jobs));
  if (!options.verbosity.quiet) {
    print("fairdraw {}: suite {}, {} cases, seed {} ({})\n", FAIRDRAW_VERSION, suite,
          plan.jobs.size(), planned.seed, planned.seed_source);
    flush_out();
  }
  // The objects are shared, because threads that are still running use them, too.
  const double expected_in_all = std::reduce(plan.seconds.begin(), plan.seconds.end());
  const auto progress = std::make_shared<RunProgress>(
      plan.jobs.size(), suites::TimeLeft(expected_in_all, threads), options.verbosity, "failed");
  planned.begun = [progress, expected = expected_by_name(plan)](const harness::CaseRecord& record) {
    progress->begun(name_of(record), expected.at(name_of(record)));
  };
  const auto failed = std::make_shared<std::atomic<bool>>(false);
  if (options.fail_fast) {
    planned.stop = [failed] { return *failed ? std::string("stopped by --fail-fast") : ""; };
  }
  const auto ended = [progress, failed](const harness::CaseRecord& record, std::size_t,
                                        std::size_t) {
    if (has_failed(record)) *failed = true;
    progress->ended(name_of(record), reports::terminal_line(record), has_failed(record));
  };
  StoppableRun run = run_until_signal(plan, planned, threads, ended);
  progress->close();
  require(options.required, run.record);
  if (!options.run_id.empty()) run.record.environment[suites::kRunId] = options.run_id;
  if (!run.threads_left) {
    if (stop_reason().empty() && !planned.against) {
      suites::ask_failed_samplers(plan.jobs, planned.make_sampler, run.record);
    }
    publish(options, run.record, plan, extras);
    return run.record.exit_code();
  }
  // From here on the function must not return or throw, because threads use the plan.
  try {
    publish(options, run.record, plan, extras);
  } catch (const std::exception& error) {
    print_error("fairdraw: {}\n", safe_text(harness::error_text(error)));
    end_process(kExitUsage);
  }
  end_process(run.record.exit_code());
}

}  // namespace

Verb add_verify(CLI::App& app) {
  const auto options = std::make_shared<VerifyOptions>();
  add_run_options(app, options->run);
  add_option(app, "--suite", options->suite, "SUITE",
             "smoke (seconds), gate (a minute), nightly (hours) (default: gate, or with "
             "--rerun-failed the suite of that report)");
  add_option(app, "--case", options->case_glob, "GLOB",
             "Only the cases whose id matches; * and ? match any characters");
  add_option(app, "--exclude", options->exclude, "GLOB",
             "Leave out the cases whose id matches; repeatable. The report names the glob",
             {.repeated = true});
  add_option(app, "--rerun-failed", options->rerun_failed, "REPORT.json",
             "Run the cases that failed in this report or could not be run, with the report's seed "
             "and, without --sampler, on its samplers");
  add_flag(app, "--fail-fast", options->fail_fast,
           "Begin no case after the first failure; the report lists the cases that were not run");
  add_required_coverage(app, options->required);
  add_option(app, "--shard", options->shard, "I/N",
             "Run part I of N, of equal duration; `merge` joins the parts");
  add_option(app, "--times", options->times, "REPORT.json",
             "Divide the cases among shards by their durations in this report. All shards need the "
             "same report (default: durations of a table)");
  add_option(app, "--case-part", options->case_part, "I/N",
             "Make part I of N of the draws of each case of chi_squared, bets and binomial; "
             "`merge` judges the draws. Part 1 runs all other cases whole");
  add_flag(app, "--second-look", options->second_look,
           "With --case-part: make the draws of a second look, if `merge` asks for these draws");
  add_option(app, "--report", options->report, "DIR",
             "Folder for report.json, index.html and the other files of the report");
  add_option(app, "--history", options->history, "DIR",
             "Folder of earlier reports (report.json, at any depth). index.html shows the verdicts "
             "of these runs, and the changes from one run to the next");
  add_option(app, "--run-id", options->run_id, "TEXT",
             "Name of this run, such as a CI system's number, for --require-run-id of `report` and "
             "`merge`");
  add_option(app, "--jobs", options->jobs, "N", "Cases judged in parallel (default: one per core)",
             {.min = 1, .max = 1024});
  add_option(app, "--run-timeout", options->run_seconds, "N",
             "Seconds that all cases may take together. Cases that have not run by then are "
             "reported as errors (default: no limit)",
             {.min = 1e-3, .max = 1e9});
  add_flag(app, "--github", options->github,
           "Write annotations and the step summary of GitHub Actions");
  add_verbosity(app, options->verbosity, "case");
  return [options] {
    return with_plugins(options->run.plugins, samplers_of(options->run),
                        [options] { return verify(*options); });
  };
}

}  // namespace fairdraw::cli
