// A file that appears whole or not at all.
#pragma once

#include <filesystem>
#include <string>

namespace fairdraw::reports {

/// Removes what is written now and not yet in place: for a signal that ends the process, whose
/// handler may call it.
void remove_pending_files();

/// Removes files that processes left behind which were killed while they wrote the file `target`.
void remove_left_behind(const std::filesystem::path& target);

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
