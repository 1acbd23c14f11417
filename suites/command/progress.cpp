#include "suites/command/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/contract/usage_error.h"
#include "reports/escape.h"
#include "suites/command/output.h"

namespace fairdraw::cli {
namespace {

constexpr std::chrono::milliseconds kTerminalPause{200};

double seconds_of(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// Returns a number of seconds as text: "8 s", "2 min 50 s", "3 h 5 min".
std::string time_text(double seconds) {
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

// Returns the number of columns that a line on stderr's terminal may use. A line of the full width
// would wrap around, and could not be redrawn.
std::size_t columns() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

// Returns the first `most` bytes of a text, without an incomplete UTF-8 character at the end.
std::string cut(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0U) == 0x80U) --most;
  return text.substr(0, most);
}

}  // namespace

void add_verbosity(CLI::App& app, Verbosity& verbosity, const std::string& each) {
  add_flag(app, "-q,--quiet", verbosity.quiet, "Print only the failures and the summary line");
  add_flag(app, "-v,--verbose", verbosity.verbose,
           fmt::format("Print a line for each {} as it ends", each));
}

void expect_one_verbosity(const Verbosity& verbosity) {
  if (!verbosity.quiet || !verbosity.verbose) return;
  throw harness::UsageError("--quiet and --verbose exclude each other; leave one of them out");
}

RunProgress::RunProgress(std::size_t all, const suites::TimeLeft& left, Verbosity verbosity,
                         std::string red_word)
    : all_(all),
      verbosity_(verbosity),
      red_word_(std::move(red_word)),
      terminal_(isatty(STDERR_FILENO) != 0),
      left_(left) {
  if (verbosity.quiet || (verbosity.verbose && !terminal_)) return;
  shows_ = std::thread([this] { show_until_closed(); });
}

RunProgress::~RunProgress() { close(); }

void RunProgress::begun(const std::string& what, double expected) {
  const std::lock_guard lock(mutex_);
  left_.begun(what, expected, elapsed());
  running_.push_back(what);
}

void RunProgress::ended(const std::string& what, const std::string& line, bool red) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  left_.ended(what, elapsed());
  const auto found = std::ranges::find(running_, what);
  if (found != running_.end()) running_.erase(found);
  ++done_;
  if (red) ++red_;
  if (!verbosity_.verbose) return;
  erase();
  print("[{}/{}] {}\n", done_, all_, line);
  flush_out();
}

void RunProgress::close() {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) erase();
    closed_ = true;
  }
  changed_.notify_all();
  if (shows_.joinable()) shows_.join();
}

void RunProgress::show_until_closed() {
  std::unique_lock lock(mutex_);
  const auto is_closed = [this] { return closed_; };
  // A very short run shows no progress.
  const std::chrono::milliseconds pause = terminal_ ? kTerminalPause : kLogPause;
  while (!changed_.wait_for(lock, pause, is_closed)) show();
}

void RunProgress::show() {
  if (!terminal_) {
    print_error("{}\n", line());
    return;
  }
  std::string text = cut(line(), columns() - 1);
  const std::string red = fmt::format("{} {}", red_, red_word_);
  const std::size_t at = text.find(red);
  if (red_ > 0 && at != std::string::npos && has_colours(STDERR_FILENO)) {
    text.replace(at, red.size(), fmt::format("\x1b[31m{}\x1b[0m", red));
  }
  // The escape sequence \x1b[K erases the rest of a longer line.
  print_error("\r\x1b[K{}", text);
  drawn_ = true;
}

void RunProgress::erase() {
  if (drawn_) print_error("\r\x1b[K");
  drawn_ = false;
}

double RunProgress::elapsed() const { return seconds_of(Clock::now() - start_); }

std::string RunProgress::line() const {
  const double now = elapsed();
  std::string text = fmt::format("[{}/{}] ", done_, all_);
  if (red_ > 0) text += fmt::format("{} {}, ", red_, red_word_);
  text += time_text(now);
  if (done_ > 0 && done_ < all_) {
    text += fmt::format(", about {} left", time_text(left_.seconds(now)));
  }
  if (running_.empty()) return text;
  text += ": " + reports::terminal_text(running_.front());
  if (running_.size() > 1) text += fmt::format(", and {} more", running_.size() - 1);
  return text;
}

}  // namespace fairdraw::cli
