// Records as files, and where else a run's outcome goes.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"
#include "reports/extras.h"

namespace fairdraw::cli {

/// The folder of reports, unless --report says otherwise.
inline constexpr const char* kUsualReport = "fairdraw-report";

/// All of a regular file of at most 1 GiB. Throws harness::UsageError.
std::string read_text(const std::string& path);

/// The record of a report.json. Throws harness::UsageError with the path and what is wrong.
harness::RunRecord read_record(const std::string& path);

/// The report.json below `folder`, and the .json in it, as runs before the one whose report goes to
/// `report`; oldest first. The file `except` is none of them. Throws harness::UsageError naming
/// --history, also where one of them is no report.
std::vector<reports::EarlierRun> read_history(const std::string& folder, const std::string& report,
                                              const std::string& except = "");

/// Throws harness::UsageError unless `record`, read from `path`, is of the run `wanted`. An empty
/// `wanted` asks for nothing.
void expect_run_id(const harness::RunRecord& record, const std::string& path,
                   const std::string& wanted);

/// Removes an earlier report from the folder, less the files of `inputs`. Without inputs it makes
/// the folder; a verb that has some makes none before it has read them. Throws harness::UsageError
/// naming --report, also where nothing can be written there. Signals are let in (signals.h).
void withdraw_report(const std::string& folder, const std::vector<std::string>& inputs = {});

/// Writes all files of a report. Throws harness::UsageError naming --report.
void write_report(const std::string& folder, const harness::RunRecord& record,
                  const reports::ReportExtras& extras = {});

/// For a job of GitHub Actions: prints annotations, and appends the summary to the file that
/// $GITHUB_STEP_SUMMARY names; without that variable it says so on stderr and goes on. Throws
/// harness::UsageError where the file cannot be written.
void publish_to_github(const harness::RunRecord& record);

}  // namespace fairdraw::cli
