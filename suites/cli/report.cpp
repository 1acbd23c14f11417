// report: render a report.json again. It reads numbers and text, and runs nothing.
#include "reports/report.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <sstream>

#include "harness/contract/usage_error.h"
#include "suites/cli/verbs.h"

namespace fairdraw::cli {
namespace {

struct ReportOptions {
  std::string file;
  std::string folder = "fairdraw-report";
};

int report(const ReportOptions& options) {
  std::ifstream file(options.file, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw harness::UsageError(fmt::format("cannot read '{}'", options.file));
  harness::RunRecord record;
  try {
    record = reports::from_json(text.str());
  } catch (const std::runtime_error& error) {
    throw harness::UsageError(fmt::format("{}: {}", options.file, error.what()));
  }
  reports::write_report(options.folder, record);
  fmt::print("{}", reports::to_terminal(record));
  return record.exit_code();
}

}  // namespace

Verb add_report(CLI::App& app) {
  const auto options = std::make_shared<ReportOptions>();
  app.add_option("file", options->file, "A report.json")->required()->type_name("FILE");
  app.add_option("folder", options->folder, "Where the rendered report goes")
      ->type_name("DIR")
      ->capture_default_str();
  return [options] { return report(*options); };
}

}  // namespace fairdraw::cli
