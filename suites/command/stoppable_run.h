// A run that a signal can end early, with a record of the finished cases.
#pragma once

#include <array>
#include <thread>

#include "harness/run/runner.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::cli {

struct StoppableRun {
  harness::RunRecord record;
  /// True if some cases did not end in time after the signal. Their threads still run and use the
  /// plan, so the process must end by end_process().
  bool threads_left = false;
};

/// Runs suites::run_plan until it ends or StopSignals requests an end. Running cases then have
/// kSecondsToEnd; cases that need more are left out, like cases that were not begun.
StoppableRun run_until_signal(const suites::Plan& plan, const suites::PlanOptions& options,
                              unsigned threads, const harness::Progress& progress);

/// Time limit of running cases after a signal. CI systems send a second signal after the first;
/// GitHub Actions does so after 7.5 s.
inline constexpr double kSecondsToEnd = 5;

/// Ends the process after flushing the output, without destructors, because threads are still
/// active.
[[noreturn]] void end_process(int code);

/// Ends the process, even within a call, when nobody reads its standard output. The class is for
/// verbs without another result than their output.
class EndsWithItsReader {
 public:
  EndsWithItsReader();
  ~EndsWithItsReader();
  EndsWithItsReader(const EndsWithItsReader&) = delete;
  EndsWithItsReader& operator=(const EndsWithItsReader&) = delete;

 private:
  std::array<int, 2> over_ = {-1, -1};  ///< a pipe that is closed at the end of the object's
                                        ///< lifetime
  std::thread watch_;
};

}  // namespace fairdraw::cli
