#include "reports/pending_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace fairdraw::reports {
namespace {

// Names of files that are being written. The names are stored so that a signal handler can read
// them without waiting. A report writes four files at a time; the handler knows at most sixteen
// files.
struct Written {
  enum State { unused, named, there };
  std::atomic<int> state = unused;
  char path[PATH_MAX] = {};
};
static_assert(std::atomic<int>::is_always_lock_free);
std::array<Written, 16> slots;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void note(const std::filesystem::path& path) {
  if (path.native().size() >= PATH_MAX) return;  // a path of this length is too long to be opened
  for (Written& one : slots) {
    int state = Written::unused;
    if (!one.state.compare_exchange_strong(state, Written::named)) continue;
    std::strcpy(one.path, path.c_str());
    one.state = Written::there;
    return;
  }
}

void forget(const std::filesystem::path& path) {
  for (Written& one : slots) {
    if (one.state == Written::there && path == one.path) one.state = Written::unused;
  }
}

constexpr std::string_view kSuffix = ".tmp";

/// Creates a new file next to `target`. Returns the file's descriptor, and sets `path` to its name;
/// returns -1 and sets errno if it fails.
int open_new(const std::filesystem::path& target, std::filesystem::path& path) {
  constexpr int kNames = 100;  // processes that ended early may have left some of these names
                               // behind
  for (int i = 0; i < kNames; ++i) {
    path = target;
    path += fmt::format(".{}.{}{}", getpid(), i, kSuffix);
    constexpr int kReadWriteOfAll = 0666;  // minus the umask
    note(path);
    const int file =
        open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kReadWriteOfAll);
    const int error = errno;
    if (file < 0) forget(path);
    errno = error;
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

// Returns the process id in a name such as ".123.0.tmp"; 0 if the text has another form.
pid_t process_in(std::string_view text) {
  pid_t process = 0;
  int number = 0;
  if (!text.starts_with('.') || !text.ends_with(kSuffix)) return 0;
  const char* const end = text.data() + text.size() - kSuffix.size();
  const auto [dot, wrong] = std::from_chars(text.data() + 1, end, process);
  if (wrong != std::errc() || dot == end || *dot != '.' || process <= 0) return 0;
  const auto [last, wrong_too] = std::from_chars(dot + 1, end, number);
  return wrong_too == std::errc() && last == end ? process : 0;
}

/// Returns 0 if all is written, otherwise the error number.
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

void remove_pending_files() {
  for (const Written& one : slots) {
    if (one.state == Written::there) unlink(one.path);
  }
}

void remove_left_behind(const std::filesystem::path& target) {
  const std::string name = target.filename().string();
  const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : ".";
  std::error_code error, ignored;
  // The loop calls increment() because operator++ throws.
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string other = entry->path().filename().string();
    if (!other.starts_with(name)) continue;
    const pid_t process = process_in(std::string_view(other).substr(name.size()));
    const bool is_gone = process > 0 && kill(process, 0) != 0 && errno == ESRCH;
    if (is_gone) std::filesystem::remove(entry->path(), ignored);
  }
}

PendingFile::PendingFile(std::filesystem::path target, const std::string& content)
    : target_(std::move(target)) {
  const int file = open_new(target_, temporary_);
  if (file < 0) fail(std::strerror(errno));
  int error = write_all(file, content);
  if (close(file) != 0 && error == 0) error = errno;
  if (error != 0) {
    std::error_code ignored;  // this error is ignored, because the earlier failure is reported
    std::filesystem::remove(temporary_, ignored);
    forget(temporary_);
    fail(std::strerror(error));
  }
}

PendingFile::~PendingFile() {
  std::error_code ignored;
  if (temporary_.empty()) return;
  std::filesystem::remove(temporary_, ignored);
  forget(temporary_);
}

void PendingFile::put_in_place() {
  std::error_code error;
  std::filesystem::rename(temporary_, target_, error);
  if (error) fail(error.message());
  forget(temporary_);
  temporary_.clear();
}

void PendingFile::fail(const std::string& reason) const {
  throw std::runtime_error(fmt::format("cannot write '{}': {}", target_.string(), reason));
}

}  // namespace fairdraw::reports
