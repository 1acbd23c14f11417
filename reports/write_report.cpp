#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "reports/report.h"

namespace fairdraw::reports {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& reason) {
  throw std::runtime_error(fmt::format("cannot write report '{}': {}", path.string(), reason));
}

/// A file that is not yet at its place; removed unless it gets there.
class PendingFile {
 public:
  PendingFile(std::filesystem::path target, const std::string& content)
      : target_(std::move(target)), temporary_(target_) {
    temporary_ += fmt::format(".{}.tmp", getpid());
    errno = 0;
    std::ofstream stream(temporary_, std::ios::binary | std::ios::trunc);
    stream << content;
    stream.close();
    if (!stream) {
      const int error = errno;
      remove();
      fail(target_, error == 0 ? "write error" : std::strerror(error));
    }
  }
  ~PendingFile() {
    if (!temporary_.empty()) remove();
  }
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  void put_in_place() {
    std::error_code error;
    std::filesystem::rename(temporary_, target_, error);
    if (error) fail(target_, error.message());
    temporary_.clear();
  }

 private:
  void remove() const {
    std::error_code ignored;  // the failure that led here is the one to tell
    std::filesystem::remove(temporary_, ignored);
  }

  std::filesystem::path target_;
  std::filesystem::path temporary_;
};

}  // namespace

void write_report(const std::filesystem::path& folder, const harness::RunRecord& record,
                  const ReportExtras& extras) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(folder, error.message());
  if (!std::filesystem::is_directory(folder)) fail(folder, "is not a folder");

  // All are written before the first is renamed: a full disk leaves an older report whole.
  PendingFile html(folder / "index.html", to_html(record, extras));
  PendingFile markdown(folder / "summary.md", to_markdown(record));
  PendingFile junit(folder / "junit.xml", to_junit_xml(record));
  PendingFile json(folder / "report.json", to_json(record));
  for (PendingFile* file : {&html, &markdown, &junit, &json}) file->put_in_place();
}

}  // namespace fairdraw::reports
