// Files that appear complete or not at all.
#pragma once

#include <filesystem>
#include <string>

namespace fairdraw::reports {

/// Removes files that are being written and are not in place yet. A handler of a signal that ends
/// the process may call this function.
void remove_pending_files();

/// Removes files left by processes that were killed while they wrote the file `target`.
void remove_left_behind(const std::filesystem::path& target);

/// A file that is written next to its place, and removed unless put_in_place() is called. The file
/// is always new: an existing link of the same name is neither followed nor overwritten.
class PendingFile {
 public:
  /// Writes the file. Throws std::runtime_error with `target` and the reason.
  PendingFile(std::filesystem::path target, const std::string& content);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  /// Moves the finished file to its place, and replaces an older one. Throws std::runtime_error if
  /// that fails.
  void put_in_place();

 private:
  [[noreturn]] void fail(const std::string& reason) const;

  std::filesystem::path target_;
  std::filesystem::path temporary_;
};

}  // namespace fairdraw::reports
