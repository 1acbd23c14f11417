// Shows the progress of a run: as a redrawn line on a terminal, or as a new line every few seconds
// in a log.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "suites/command/options.h"
#include "suites/gate/run/time_left.h"

namespace fairdraw::cli {

/// The amount of text that a verb prints.
struct Verbosity {
  bool quiet = false;    ///< true if only failures and the summary are printed
  bool verbose = false;  ///< true if a line is also printed for each case
};

/// Adds -q, --quiet, -v, --verbose. `each` describes the items for which --verbose prints a line.
void add_verbosity(CLI::App& app, Verbosity& verbosity, const std::string& each);

/// Throws harness::UsageError if both --quiet and --verbose are given.
void expect_one_verbosity(const Verbosity& verbosity);

/// Writes lines such as "[12/3676] 1 failed, 34 s, about 2 min 50 s left: mask/gaussian/v31/top_k
/// on cpu" to stderr. On a terminal the line is redrawn; elsewhere a new line is written every
/// kLogPause. Nothing is shown if the verbosity is quiet, or in a log that already has a line for
/// each case. All functions may be called by several threads.
class RunProgress {
 public:
  static constexpr std::chrono::seconds kLogPause{5};

  /// `left` estimates the remaining time for all `all` items. `red_word` is the word for failed
  /// items, for example "failed".
  RunProgress(std::size_t all, const suites::TimeLeft& left, Verbosity verbosity,
              std::string red_word);
  ~RunProgress();
  RunProgress(const RunProgress&) = delete;
  RunProgress& operator=(const RunProgress&) = delete;

  /// `expected` is the expected time of the item, in the unit of `left`.
  void begun(const std::string& what, double expected);
  /// The argument `line` is the text that --verbose writes to stdout.
  void ended(const std::string& what, const std::string& line, bool red);
  /// Erases the progress line and shows nothing more.
  void close();

 private:
  using Clock = std::chrono::steady_clock;

  void show_until_closed();
  void show();
  void erase();
  double elapsed() const;
  std::string line() const;

  const std::size_t all_;
  const Verbosity verbosity_;
  const std::string red_word_;
  const bool terminal_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  suites::TimeLeft left_;
  std::size_t done_ = 0, red_ = 0;
  std::vector<std::string> running_;  ///< items that are running; the oldest item is shown
  bool drawn_ = false, closed_ = false;
  std::thread shows_;
};

}  // namespace fairdraw::cli
