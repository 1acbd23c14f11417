// A file that appears whole or not at all.
#pragma once

#include <filesystem>
#include <string>

namespace fairdraw::reports {

/// A file that is written next to its place and not yet there; removed unless it gets there. It is
/// always a new file: a link that waits under its name is neither followed nor overwritten.
class PendingFile {
 public:
  /// Throws std::runtime_error with `target` and the reason.
  PendingFile(std::filesystem::path target, const std::string& content);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  /// Replaces what is at its place. Throws std::runtime_error.
  void put_in_place();

 private:
  [[noreturn]] void fail(const std::string& reason) const;

  std::filesystem::path target_;
  std::filesystem::path temporary_;
};

}  // namespace fairdraw::reports
