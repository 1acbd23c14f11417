// What a run shows while it goes: a line that moves on a terminal, a line every few seconds in a
// log.
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

/// How much a verb prints while it runs and at its end.
struct Verbosity {
  bool quiet = false;    ///< failures and the summary
  bool verbose = false;  ///< a line for each case as well
};

/// -q, --quiet, -v, --verbose. `each` says what --verbose prints a line for.
void add_verbosity(CLI::App& app, Verbosity& verbosity, const std::string& each);

/// Throws harness::UsageError where both are given.
void expect_one_verbosity(const Verbosity& verbosity);

/// "[12/3676] 1 failed, 34 s, about 2 min 50 s left: mask/gaussian/v31/top_k on cpu" to stderr. On
/// a terminal the line is redrawn, elsewhere a new
/// one is written every kLogPause; not where the verbosity is quiet, nor in a log that has a line
/// for each case already. All functions may be called by several threads.
class RunProgress {
 public:
  static constexpr std::chrono::seconds kLogPause{5};

  /// `left` knows what all of them are expected to take. `red_word` says what the red ones did:
  /// "failed".
  RunProgress(std::size_t all, const suites::TimeLeft& left, Verbosity verbosity,
              std::string red_word);
  ~RunProgress();
  RunProgress(const RunProgress&) = delete;
  RunProgress& operator=(const RunProgress&) = delete;

  /// `expected`: what it may take, in the unit of `left`.
  void begun(const std::string& what, double expected);
  /// `line` is what a line for each case says. It goes to stdout.
  void ended(const std::string& what, const std::string& line, bool red);
  /// Takes the line away. What comes later is not shown.
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
  std::vector<std::string> running_;  ///< the one that was begun first is shown
  bool drawn_ = false, closed_ = false;
  std::thread shows_;
};

}  // namespace fairdraw::cli
