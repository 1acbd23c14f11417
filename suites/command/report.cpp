// report: render a report.json again. It reads numbers and text, and runs nothing.
#include "reports/report.h"

#include <fmt/format.h>

#include <memory>

#include "harness/contract/usage_error.h"
#include "suites/command/app.h"
#include "suites/command/output.h"
#include "suites/command/record_files.h"
#include "suites/command/run_options.h"
#include "suites/command/verbs.h"

namespace fairdraw::cli {
namespace {

struct ReportOptions {
  std::string file;
  std::string folder;
  std::string benchmark, mutants, history;
  std::vector<std::string> conformance;
  std::string run_id;
  bool github = false;
  std::string command;  ///< how the program was called
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
  print_outcome(record, options.command);
  if (options.github) publish_to_github(record);
  return record.exit_code();
}

}  // namespace

Verb add_report(App& app) {
  const auto options = std::make_shared<ReportOptions>();
  options->command = app.command();
  options->folder = "fairdraw-report";
  app.add_option("file", options->file, "A report.json")->required()->type_name("FILE");
  app.add_option("--report,folder", options->folder, "Where the rendered report goes")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_option("--benchmark", options->benchmark, "Show the rows of `fairdraw bench --json` too")
      ->type_name("FILE");
  app.add_option("--mutants", options->mutants,
                 "Show the kill matrix of `fairdraw mutants --json` too")
      ->type_name("FILE");
  app.add_option("--conformance", options->conformance,
                 "Show the samplers of another report.json next to this one's; repeatable")
      ->type_name("FILE")
      ->expected(1)
      ->take_all();
  app.add_option(
         "--history", options->history,
         "Folder of earlier reports (report.json, at any depth): index.html shows how these "
         "runs ended, and what changed from one to the next")
      ->type_name("DIR");
  app.add_option("--require-run-id", options->run_id,
                 "Refuse a report of another run than the one that --run-id of verify named so")
      ->type_name("TEXT");
  app.add_flag("--github", options->github, "Annotations and step summary of GitHub Actions");
  return [options] { return report(*options); };
}

}  // namespace fairdraw::cli
