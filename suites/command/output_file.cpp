#include "suites/command/output_file.h"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "harness/contract/usage_error.h"
#include "reports/pending_file.h"
#include "suites/command/output.h"

namespace fairdraw::cli {

OutputFile::OutputFile(std::string option, std::string path, const std::vector<std::string>& inputs)
    : option_(std::move(option)), path_(std::move(path)) {
  if (!wanted()) return;
  if (is_standard_output()) {
    if (!stop_printing()) fail(": another option writes to the standard output");
    return;
  }
  std::error_code error;
  for (const std::string& input : inputs) {
    if (std::filesystem::equivalent(input, path_, error)) fail(": this call also reads the file");
  }
  through_ = !is_plain();
  if (through_) {
    if (!std::ofstream(path_, std::ios::app)) fail("");
    return;
  }
  std::string why;
  reports::remove_left_behind(path_);
  try {
    const reports::PendingFile probe(path_, "probe");
    std::filesystem::remove(path_, error);
    if (!error) return;
    why = fmt::format("cannot remove '{}': {}", path_, error.message());
  } catch (const std::runtime_error& failure) {
    why = failure.what();
  }
  // A file that is mounted, or that lies in a read-only folder, may itself be writable.
  through_ = std::filesystem::exists(path_, error) && std::ofstream(path_, std::ios::trunc);
  if (!through_) throw harness::UsageError(fmt::format("{}: {}", option_, why));
}

void OutputFile::write(const std::string& text) const {
  if (!wanted()) return;
  if (is_standard_output()) {
    write_out(text);
    return;
  }
  if (through_) {
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    file << text;
    if (!file.flush()) fail("");
    return;
  }
  try {
    reports::PendingFile file(path_, text);
    file.put_in_place();
  } catch (const std::runtime_error& failure) {
    throw harness::UsageError(fmt::format("{}: {}", option_, failure.what()));
  }
}

bool OutputFile::is_plain() const {
  std::error_code error;
  const auto type = std::filesystem::symlink_status(path_, error).type();
  return type == std::filesystem::file_type::regular ||
         type == std::filesystem::file_type::not_found;
}

void OutputFile::fail(const std::string& why) const {
  throw harness::UsageError(fmt::format("{}: cannot write '{}'{}", option_, path_, why));
}

}  // namespace fairdraw::cli
