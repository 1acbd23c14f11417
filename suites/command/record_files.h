// Records as files, and where else a run's outcome goes.
#pragma once

#include <string>

#include "harness/run/evidence/record.h"

namespace fairdraw::cli {

/// All of a file. Throws harness::UsageError.
std::string read_text(const std::string& path);

/// The record of a report.json. Throws harness::UsageError with the path and what is wrong.
harness::RunRecord read_record(const std::string& path);

/// Writes a file that `option` names. Throws harness::UsageError.
void write_text(const std::string& option, const std::string& path, const std::string& text);

/// For a job of GitHub Actions: prints annotations, and appends the summary to the file that
/// $GITHUB_STEP_SUMMARY names; without that variable it says so on stderr and goes on. Throws
/// harness::UsageError where the file cannot be written.
void publish_to_github(const harness::RunRecord& record);

}  // namespace fairdraw::cli
