// A file that is open for reading.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

namespace fairdraw::harness {

/// A file that is closed at the end of the scope.
class OpenFile {
 public:
  /// Opens the file without blocking, because opening a pipe without a writer would wait for ever.
  explicit OpenFile(const std::filesystem::path& path)
      : number_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~OpenFile() {
    if (number_ >= 0) close(number_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// Returns the file's descriptor, which is negative if the file could not be opened; errno then
  /// has the reason.
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace fairdraw::harness
