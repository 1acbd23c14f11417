#include "suites/command/record_files.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "harness/contract/usage_error.h"
#include "reports/report.h"

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

void write_text(const std::string& option, const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  if (!file.flush()) {
    throw harness::UsageError(fmt::format("{}: cannot write '{}'", option, path));
  }
}

void publish_to_github(const harness::RunRecord& record) {
  fmt::print("{}", reports::to_annotations(record));
  const char* const path = std::getenv("GITHUB_STEP_SUMMARY");
  if (path == nullptr || *path == '\0') {
    fmt::print(stderr, "fairdraw: --github: GITHUB_STEP_SUMMARY is not set; no step summary\n");
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
