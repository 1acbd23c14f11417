#include "suites/command/record_files.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "harness/contract/usage_error.h"
#include "reports/report.h"
#include "suites/command/output.h"
#include "suites/gate/cases/complete_record.h"

namespace fairdraw::cli {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // Peeked at first: inserting the buffer of an empty file sets failbit.
  if (file && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad()) {
    throw harness::UsageError(fmt::format("cannot read '{}'", path));
  }
  return text.str();
}

harness::RunRecord read_record(const std::string& path) {
  try {
    return reports::from_json(read_text(path));
  } catch (const harness::UsageError&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw harness::UsageError(fmt::format("{}: {}", path, error.what()));
  }
}

void expect_run_id(const harness::RunRecord& record, const std::string& path,
                   const std::string& wanted) {
  if (wanted.empty()) return;
  const auto found = record.environment.find(suites::kRunId);
  if (found != record.environment.end() && found->second == wanted) return;
  throw harness::UsageError(fmt::format("{}: the report is {}; expected run '{}'", path,
                                        found == record.environment.end()
                                            ? "of a run without --run-id"
                                            : fmt::format("of run '{}'", found->second),
                                        wanted));
}

namespace {

template <class Work>
void naming_report(const Work& work) {
  try {
    work();
  } catch (const std::runtime_error& error) {
    throw harness::UsageError(fmt::format("--report: {}", error.what()));
  }
}

}  // namespace

void withdraw_report(const std::string& folder, const std::vector<std::string>& inputs) {
  std::error_code error;
  if (!inputs.empty() && !std::filesystem::exists(folder, error)) return;
  naming_report([&] { reports::withdraw_report(folder, {inputs.begin(), inputs.end()}); });
}

void write_report(const std::string& folder, const harness::RunRecord& record,
                  const reports::ReportExtras& extras) {
  naming_report([&] { reports::write_report(folder, record, extras); });
}

void publish_to_github(const harness::RunRecord& record) {
  print("{}", reports::to_annotations(record));
  const char* const path = std::getenv("GITHUB_STEP_SUMMARY");
  if (path == nullptr || *path == '\0') {
    print_error("fairdraw: --github: GITHUB_STEP_SUMMARY is not set; no step summary\n");
    return;
  }
  // Other steps of the job append too.
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << reports::to_markdown(record);
  if (!file.flush()) {
    throw harness::UsageError(
        fmt::format("--github: cannot write '{}', which GITHUB_STEP_SUMMARY names", path));
  }
}

}  // namespace fairdraw::cli
