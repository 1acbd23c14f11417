// report: renders a report.json again. The verb only reads data and runs no sampler.
#include "reports/report.h"

#include <fmt/format.h>

#include <memory>

#include "harness/contract/usage_error.h"
#include "suites/command/options.h"
#include "suites/command/output.h"
#include "suites/command/record_files.h"
#include "suites/command/run_options.h"
#include "suites/command/verbs/verbs.h"

namespace fairdraw::cli {
namespace {

struct ReportOptions {
  std::string file;
  std::string folder;
  std::string benchmark, mutants, history;
  std::vector<std::string> conformance;
  std::string run_id;
  bool github = false;
};

template <class Read>
auto read_extra(const std::string& option, const std::string& path, const Read& read) {
  try {
    return read(read_text(path));
  } catch (const std::runtime_error& error) {
    throw harness::UsageError(fmt::format("{}: {}: {}", option, path, error.what()));
  }
}

int report(const ReportOptions& options) {
  std::vector<std::string> inputs = options.conformance;
  for (const std::string* const input : {&options.file, &options.benchmark, &options.mutants}) {
    inputs.push_back(*input);
  }
  withdraw_report(options.folder, inputs);
  const harness::RunRecord record = read_record(options.file);
  expect_run_id(record, options.file, options.run_id);
  reports::ReportExtras extras;
  if (!options.benchmark.empty()) {
    extras.benchmark = read_extra("--benchmark", options.benchmark, reports::benchmark_from_json);
  }
  if (!options.mutants.empty()) {
    extras.mutants = read_extra("--mutants", options.mutants, reports::kill_matrix_from_json);
  }
  for (const std::string& path : options.conformance) {
    extras.conformance.push_back(read_record(path));
  }
  if (!options.history.empty()) {
    extras.history = read_history(options.history, options.folder, options.file);
  }
  write_report(options.folder, record, extras);
  print_outcome(record);
  if (options.github) publish_to_github(record);
  return record.exit_code();
}

}  // namespace

Verb add_report(CLI::App& app) {
  const auto options = std::make_shared<ReportOptions>();
  options->folder = kUsualReport;
  add_option(app, "file", options->file, "FILE", "A report.json", {.required = true});
  add_option(app, "--report,folder", options->folder, "DIR", "Folder for the rendered report");
  add_option(app, "--benchmark", options->benchmark, "FILE",
             "Also show the rows of `fairdraw bench --json`");
  add_option(app, "--mutants", options->mutants, "FILE",
             "Also show the kill matrix of `fairdraw mutants --json`");
  add_option(app, "--conformance", options->conformance, "FILE",
             "Show the samplers of another report.json next to this one's; repeatable",
             {.repeated = true});
  add_option(app, "--history", options->history, "DIR",
             "Folder of earlier reports (report.json, at any depth). index.html shows the verdicts "
             "of these runs, and the changes from one run to the next");
  add_option(
      app, "--require-run-id", options->run_id, "TEXT",
      "Refuse a report of another run: the report must have this text as --run-id of `verify`");
  add_flag(app, "--github", options->github,
           "Write annotations and the step summary of GitHub Actions");
  return [options] { return report(*options); };
}

}  // namespace fairdraw::cli
