// A run that a signal ends early, with a record of what was run.
#pragma once

#include <array>
#include <thread>

#include "harness/run/runner.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::cli {

struct StoppableRun {
  harness::RunRecord record;
  /// Cases did not end in time after the signal: their threads still run, and use the plan. The
  /// process has to end by end_process().
  bool threads_left = false;
};

/// suites::run_plan, ended by StopSignals too. Cases that run when the signal comes have
/// kSecondsToEnd; those that need more are left out, as those that were never begun.
StoppableRun run_until_signal(const suites::Plan& plan, const suites::PlanOptions& options,
                              unsigned threads, const harness::Progress& progress);

/// CI systems follow their first signal with a second one; GitHub Actions does so after 7.5 s.
inline constexpr double kSecondsToEnd = 5;

/// Ends the process with nothing more than a flush: no destructor runs under threads' feet.
[[noreturn]] void end_process(int code);

/// While it lives, the process ends when nobody reads its standard output any more, in the middle
/// of a call, too: for verbs that have no other result.
class EndsWithItsReader {
 public:
  EndsWithItsReader();
  ~EndsWithItsReader();
  EndsWithItsReader(const EndsWithItsReader&) = delete;
  EndsWithItsReader& operator=(const EndsWithItsReader&) = delete;

 private:
  std::array<int, 2> over_ = {-1, -1};  ///< a pipe, closed at the end
  std::thread watch_;
};

}  // namespace fairdraw::cli
