#include <fmt/format.h>

#include <stdexcept>
#include <system_error>

#include "reports/pending_file.h"
#include "reports/report.h"

namespace fairdraw::reports {
namespace {

// report.json is removed first and written last, because other programs wait for this file.
constexpr const char* kJson = "report.json";
constexpr const char* kJunit = "junit.xml";
constexpr const char* kMarkdown = "summary.md";
constexpr const char* kHtml = "index.html";

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& reason) {
  throw std::runtime_error(fmt::format("cannot write '{}': {}", path.string(), reason));
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(folder, error.message());
  if (!std::filesystem::is_directory(folder)) fail(folder, "is not a folder");
}

}  // namespace

void withdraw_report(const std::filesystem::path& folder,
                     const std::vector<std::filesystem::path>& keep) {
  make_folder(folder);
  for (const char* const name : {kJson, kJunit, kMarkdown, kHtml}) {
    const std::filesystem::path path = folder / name;
    std::error_code error;
    remove_left_behind(path);
    bool kept = false;
    for (const std::filesystem::path& one : keep) {
      kept = kept || std::filesystem::equivalent(one, path, error);
    }
    if (kept || std::filesystem::is_directory(std::filesystem::symlink_status(path, error))) {
      continue;  // a folder of that name is not a report; writing the report will name it as an
                 // obstacle
    }
    std::filesystem::remove(path, error);
    if (error) fail(path, error.message());
  }
  // Fails if the folder is not writable, before a run that takes minutes.
  const PendingFile probe(folder / kJson, "probe");
}

void write_report(const std::filesystem::path& folder, const harness::RunRecord& record,
                  const ReportExtras& extras) {
  make_folder(folder);
  // All files are written before the first is renamed, so that a full disk leaves an older report
  // complete.
  PendingFile html(folder / kHtml, to_html(record, extras));
  PendingFile markdown(folder / kMarkdown, to_markdown(record));
  PendingFile junit(folder / kJunit, to_junit_xml(record));
  PendingFile json(folder / kJson, to_json(record));
  for (PendingFile* file : {&html, &markdown, &junit, &json}) file->put_in_place();
}

}  // namespace fairdraw::reports
