// Functions that read and write records, and publish the outcome of a run.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"
#include "reports/extras.h"

namespace fairdraw::cli {

/// Folder of reports if --report is not given.
inline constexpr const char* kUsualReport = "fairdraw-report";

/// Reads a regular file of at most 1 GiB. Throws harness::UsageError.
std::string read_text(const std::string& path);

/// Reads the record in a report.json. Throws harness::UsageError with the path and the error.
harness::RunRecord read_record(const std::string& path);

/// Reads the earlier runs for the report in the folder `report`, oldest first: each report.json
/// below `folder`, and each .json in `folder`, except the file `except`. Throws harness::UsageError
/// that names --history, also if one of these files is not a report.
std::vector<reports::EarlierRun> read_history(const std::string& folder, const std::string& report,
                                              const std::string& except = "");

/// Throws harness::UsageError unless the record, which was read from `path`, has the run id
/// `wanted`. If `wanted` is empty, every record is accepted.
void expect_run_id(const harness::RunRecord& record, const std::string& path,
                   const std::string& wanted);

/// Removes an earlier report from the folder, except for the files of `inputs`, and then lets
/// signals in (signals.h). Without inputs the function makes the folder. With inputs the function
/// makes no folder, because the verb must read the inputs first. Throws harness::UsageError that
/// names --report, also if the folder is not writable.
void withdraw_report(const std::string& folder, const std::vector<std::string>& inputs = {});

/// Writes all files of a report. Throws harness::UsageError that names --report if a file cannot be
/// written.
void write_report(const std::string& folder, const harness::RunRecord& record,
                  const reports::ReportExtras& extras = {});

/// Publishes a record in a job of GitHub Actions: prints annotations, and appends the summary to
/// the file that $GITHUB_STEP_SUMMARY names. If this variable is not set, the function prints a
/// note on stderr and continues. Throws harness::UsageError if that file cannot be written.
void publish_to_github(const harness::RunRecord& record);

}  // namespace fairdraw::cli
