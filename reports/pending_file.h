// Files that appear complete at their place, or not at all.
#pragma once

#include <filesystem>
#include <string>

namespace fairdraw::reports {

/// Removes the files that are being written and are not yet at their place. A signal handler that
/// ends the process may call this function.
void remove_pending_files();

/// Removes temporary files of processes that were killed while they wrote the file `target`.
void remove_left_behind(const std::filesystem::path& target);

/// A file that is written beside its final place, and removed unless put_in_place() is called. The
/// temporary file is always new: an existing link of the same name is neither followed nor
/// overwritten.
class PendingFile {
 public:
  /// Writes the file. Throws std::runtime_error with `target` and the reason.
  PendingFile(std::filesystem::path target, const std::string& content);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  /// Moves the finished file to its final place, and replaces an older file there. Throws
  /// std::runtime_error if that fails.
  void put_in_place();

 private:
  [[noreturn]] void fail(const std::string& reason) const;

  std::filesystem::path target_;
  std::filesystem::path temporary_;
};

}  // namespace fairdraw::reports
