#include "reports/pending_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace fairdraw::reports {
namespace {

/// A new file next to `target`: its descriptor, and its name in `path`. -1 with errno where there
/// can be none.
int open_new(const std::filesystem::path& target, std::filesystem::path& path) {
  constexpr int kNames = 100;  // those of processes that ended before they could remove theirs
  for (int i = 0; i < kNames; ++i) {
    path = target;
    path += fmt::format(".{}.{}.tmp", getpid(), i);
    constexpr int kReadWriteOfAll = 0666;  // less what the umask takes
    const int file =
        open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kReadWriteOfAll);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

/// 0, or the error.
int write_all(int file, const std::string& content) {
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t written = write(file, content.data() + done, content.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    done += static_cast<std::size_t>(written);
  }
  return 0;
}

}  // namespace

PendingFile::PendingFile(std::filesystem::path target, const std::string& content)
    : target_(std::move(target)) {
  const int file = open_new(target_, temporary_);
  if (file < 0) fail(std::strerror(errno));
  int error = write_all(file, content);
  if (close(file) != 0 && error == 0) error = errno;
  if (error != 0) {
    std::error_code ignored;  // the failure that led here is the one to tell
    std::filesystem::remove(temporary_, ignored);
    fail(std::strerror(error));
  }
}

PendingFile::~PendingFile() {
  std::error_code ignored;
  if (!temporary_.empty()) std::filesystem::remove(temporary_, ignored);
}

void PendingFile::put_in_place() {
  std::error_code error;
  std::filesystem::rename(temporary_, target_, error);
  if (error) fail(error.message());
  temporary_.clear();
}

void PendingFile::fail(const std::string& reason) const {
  throw std::runtime_error(fmt::format("cannot write '{}': {}", target_.string(), reason));
}

}  // namespace fairdraw::reports
