#include "suites/command/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "reports/report.h"
#include "suites/command/output.h"

namespace fairdraw::cli {
namespace {

constexpr std::size_t kBarWidth = 30;

void draw_bar(const harness::CaseRecord& record, std::size_t done, std::size_t all) {
  const std::size_t filled = kBarWidth * done / all;
  const bool red =
      record.verdict == harness::Verdict::failed || record.verdict == harness::Verdict::error;
  // \x1b[K erases what a longer line left behind.
  if (red) print_error("\r\x1b[K{}\n", reports::terminal_line(record));
  print_error("\r\x1b[K[{}{}] {}/{}", std::string(filled, '#'),
              std::string(kBarWidth - filled, ' '), done, all);
  if (done == all) print_error("\r\x1b[K");
}

}  // namespace

harness::Progress make_progress() {
  if (isatty(STDERR_FILENO) != 0) return draw_bar;
  return [](const harness::CaseRecord& record, std::size_t done, std::size_t all) {
    print("[{}/{}] {}\n", done, all, reports::terminal_line(record));
    flush_out();
  };
}

}  // namespace fairdraw::cli
