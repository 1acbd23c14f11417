#include "suites/command/record_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "harness/contract/usage_error.h"
#include "harness/inputs/regular_file.h"
#include "reports/report.h"
#include "reports/wording.h"
#include "suites/command/output.h"
#include "suites/command/signals.h"
#include "suites/gate/run/complete_record.h"

namespace fairdraw::cli {

std::string read_text(const std::string& path) {
  // Counts of 2^20 tokens take about 10 MB per case, and few cases have that many tokens.
  constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;
  return harness::read_regular_file(path, kMaxBytes);
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

namespace {

namespace fs = std::filesystem;

/// Returns a path as the address of a link. The path is escaped, so that a folder's name can
/// neither end the address nor begin another scheme.
std::string url_of(const fs::path& path) {
  std::string url;
  for (const char letter : path.generic_string()) {
    const bool is_plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                          (letter >= '0' && letter <= '9') ||
                          std::string_view("/-_.~").find(letter) != std::string_view::npos;
    url += is_plain ? std::string(1, letter)
                    : fmt::format("%{:02X}", static_cast<unsigned char>(letter));
  }
  return url;
}

/// Returns the link from a page in the folder `report` to the index.html beside `file`, or an empty
/// string if there is no such page.
std::string page_of(const fs::path& file, const std::string& report) {
  std::error_code error;
  const fs::path page = file.parent_path() / "index.html";
  if (file.filename() != "report.json" || !fs::exists(page, error)) return "";
  const fs::path there = fs::weakly_canonical(page, error),
                 here = fs::weakly_canonical(report, error);
  return url_of(there.lexically_relative(here));
}

}  // namespace

std::vector<reports::EarlierRun> read_history(const std::string& folder, const std::string& report,
                                              const std::string& except) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator below(folder, fs::directory_options::skip_permission_denied,
                                         error);
  for (; !error && below != fs::recursive_directory_iterator(); below.increment(error)) {
    std::error_code none;
    const fs::path& path = below->path();
    const bool is_report =
        path.filename() == "report.json" || (path.extension() == ".json" && below.depth() == 0);
    if (!is_report || !below->is_regular_file(none)) continue;
    if (!except.empty() && fs::equivalent(path, except, none)) continue;
    files.push_back(path);
  }
  if (error) {
    throw harness::UsageError(fmt::format("--history: '{}': {}", folder, error.message()));
  }
  std::sort(files.begin(), files.end());
  std::vector<reports::EarlierRun> runs;
  for (const fs::path& path : files) {
    const bool has_folder = path.filename() == "report.json" && path.parent_path() != folder;
    const fs::path name = has_folder ? path.parent_path().lexically_relative(folder) : path.stem();
    try {
      runs.push_back({name.generic_string(), page_of(path, report), read_record(path.string())});
    } catch (const harness::UsageError& wrong) {
      throw harness::UsageError(fmt::format("--history: {}", wrong.what()));
    }
  }
  std::ranges::stable_sort(
      runs, {}, [](const reports::EarlierRun& run) { return reports::start_of(run.record); });
  return runs;
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
  if (inputs.empty() || std::filesystem::exists(folder, error)) {
    naming_report([&] { reports::withdraw_report(folder, {inputs.begin(), inputs.end()}); });
  }
  let_signals_in();
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
  // The summary is appended, because other steps of the job also write to this file.
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << reports::to_markdown(record);
  if (!file.flush()) {
    throw harness::UsageError(
        fmt::format("--github: cannot write '{}', which GITHUB_STEP_SUMMARY names", path));
  }
}

}  // namespace fairdraw::cli
