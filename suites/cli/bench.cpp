// bench: the speed of samplers, measured by suites/benchmarks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>

#include "harness/contract/usage_error.h"
#include "reports/report.h"
#include "suites/benchmarks/benchmarks.h"
#include "suites/cli/captured_files.h"
#include "suites/cli/verbs.h"

namespace fairdraw::cli {
namespace {

constexpr int kExitFailed = 1;

int bench(const suites::BenchmarkOptions& options, const std::string& json) {
  std::vector<std::string> failures;
  const std::vector<harness::BenchmarkRecord> rows = suites::run_benchmarks(options, failures);
  fmt::print("{}", reports::to_text_table(rows));
  if (!failures.empty()) {  // times of wrong tokens are no baseline: no file
    for (const std::string& failure : failures) fmt::print(stderr, "fairdraw: {}\n", failure);
    return kExitFailed;
  }
  if (json.empty()) return 0;
  std::ofstream file(json);
  file << reports::to_json(rows);
  if (!file.flush()) {
    throw harness::UsageError(fmt::format("--json: cannot write '{}'", json));
  }
  return 0;
}

}  // namespace

Verb add_bench(CLI::App& app) {
  const auto options = std::make_shared<suites::BenchmarkOptions>();
  options->data_directory = data_folder();
  const auto json = std::make_shared<std::string>();
  suites::add_benchmark_options(app, *options);
  app.add_option("--json", *json, "Write the rows as a JSON array")->type_name("FILE");
  return [options, json] { return bench(*options, *json); };
}

}  // namespace fairdraw::cli
