#include "suites/command/output.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "reports/escape.h"

namespace fairdraw::cli {
namespace {

constexpr int kExitUsage = 2;
static_assert(kExitReaderGone == 128 + SIGPIPE);

// The errno of the first failed write to stdout, or 0 if none failed.
std::atomic<int> first_error = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

std::atomic<bool> printing = true;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void note_error() {
  int none = 0;
  first_error.compare_exchange_strong(none, errno == 0 ? EIO : errno);
}

}  // namespace

std::string safe_text(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    safe += reports::terminal_text(text.substr(0, end));
    if (end == std::string_view::npos) break;
    safe += '\n';
    text.remove_prefix(end + 1);
  }
  return safe;
}

void write_out(std::string_view text) { write_safe_out(safe_text(text)); }

void write_safe_out(std::string_view safe) {
  errno = 0;
  if (std::fwrite(safe.data(), 1, safe.size(), stdout) < safe.size()) note_error();
}

void flush_out() {
  errno = 0;
  if (std::fflush(stdout) != 0) note_error();
}

bool stop_printing() { return printing.exchange(false); }

void start_printing() { printing = true; }

bool is_printing() { return printing; }

std::string& program_command() {
  static std::string command;
  return command;
}

bool has_colours(int file) {
  const auto value_of = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  return value_of("NO_COLOR").empty() && value_of("TERM") != "dumb" && isatty(file) != 0;
}

void write_error(std::string_view text) {
  // Errors are ignored here, because a failed write to stderr cannot be reported anywhere.
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

int end_of_output(int code) {
  flush_out();
  if (std::ferror(stdout) != 0) note_error();
  if (first_error == 0 || code != 0) return code;
  if (first_error == EPIPE) return kExitReaderGone;
  print_error("fairdraw: cannot write to the standard output: {}\n",
              std::strerror(first_error.load()));
  return kExitUsage;
}

}  // namespace fairdraw::cli
