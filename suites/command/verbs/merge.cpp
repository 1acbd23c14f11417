// merge: joins shards of a run, parts of its cases, or several runs into one record and one report.
#include <fmt/format.h>

#include <memory>

#include "harness/run/parallel.h"
#include "reports/report.h"
#include "suites/command/options.h"
#include "suites/command/output.h"
#include "suites/command/record_files.h"
#include "suites/command/recorded_options.h"
#include "suites/command/run_options.h"
#include "suites/command/verbs/verbs.h"
#include "suites/gate/run/accumulate.h"
#include "suites/gate/run/complete_record.h"
#include "suites/gate/run/merge_parts.h"

namespace fairdraw::cli {
namespace {

struct MergeOptions {
  std::vector<std::string> files;
  std::string report = kUsualReport;
  std::string run_id;
  RequiredCoverage required;
  bool across_seeds = false;
  bool github = false;
};

harness::RunRecord merged(const MergeOptions& options,
                          const std::vector<suites::NamedRecord>& records) {
  if (options.across_seeds) return suites::accumulate_nights(records);
  const suites::NamedRecord& first = records.front();
  if (first.record.case_part.empty()) return suites::merge_shards(records);
  return suites::merge_parts(records, recorded_options(first.name, first.record),
                             harness::threads_of(0));
}

int merge(const MergeOptions& options) {
  expect_coverage(options.required);
  withdraw_report(options.report, options.files);
  std::vector<suites::NamedRecord> shards;
  for (const std::string& file : options.files) {
    shards.push_back({file, read_record(file)});
    expect_run_id(shards.back().record, file, options.run_id);
  }
  harness::RunRecord record = merged(options, shards);
  require(options.required, record);
  write_report(options.report, record);
  print_outcome(record);
  if (options.github) publish_to_github(record);
  print("{} records, {} cases, report in {}\n", shards.size(), record.cases.size(), options.report);
  return record.exit_code();
}

}  // namespace

Verb add_merge(CLI::App& app) {
  const auto options = std::make_shared<MergeOptions>();
  add_option(app, "files", options->files, "FILE",
             "The report.json of every shard or of every part (--case-part), in any order. With "
             "--across-seeds: the report.json of every night, in the order of the nights",
             {.required = true});
  add_flag(app, "--across-seeds", options->across_seeds,
           "The files are whole runs with different seeds (nights), in the order in which they "
           "were made; their evidence is accumulated");
  add_required_coverage(app, options->required);
  add_option(app, "--report", options->report, "DIR",
             "Folder for report.json, index.html and the other files of the report");
  add_option(app, "--require-run-id", options->run_id, "TEXT",
             "Refuse shards of other runs: each shard must have this text as --run-id of `verify`");
  add_flag(app, "--github", options->github,
           "Write annotations and the step summary of GitHub Actions");
  return [options] { return merge(*options); };
}

}  // namespace fairdraw::cli
