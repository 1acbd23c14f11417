// A file that is open for reading.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

namespace fairdraw::harness {

/// Closed whatever throws.
class OpenFile {
 public:
  /// A pipe that nobody writes to would keep who opens it waiting.
  explicit OpenFile(const std::filesystem::path& path)
      : number_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~OpenFile() {
    if (number_ >= 0) close(number_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// Negative where it could not be opened; errno says why.
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace fairdraw::harness
