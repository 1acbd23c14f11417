// A run that a signal can end early; the record then has the cases that have finished.
#pragma once

#include <array>
#include <thread>

#include "harness/run/runner.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::cli {

struct StoppableRun {
  harness::RunRecord record;
  /// true if some cases did not end in time after the signal. The threads of such cases still run
  /// and use the plan, so the process must end by end_process().
  bool threads_left = false;
};

/// Runs suites::run_plan until it ends or StopSignals requests an end. After a signal, running
/// cases have kSecondsToEnd to end. Cases that need longer are left out, like cases that had not
/// begun.
StoppableRun run_until_signal(const suites::Plan& plan, const suites::PlanOptions& options,
                              unsigned threads, const harness::Progress& progress);

/// Seconds that running cases have to end after a signal. CI systems send a second signal some time
/// after the first one; GitHub Actions waits for 7.5 s.
inline constexpr double kSecondsToEnd = 5;

/// Ends the process after flushing the output. No destructor runs, because threads are still
/// active.
[[noreturn]] void end_process(int code);

/// Ends the process, even in the middle of a call, when its standard output has no reader any more.
/// The class is for verbs that have no result besides their output.
class EndsWithItsReader {
 public:
  EndsWithItsReader();
  ~EndsWithItsReader();
  EndsWithItsReader(const EndsWithItsReader&) = delete;
  EndsWithItsReader& operator=(const EndsWithItsReader&) = delete;

 private:
  std::array<int, 2> over_ = {-1, -1};  ///< a pipe that is closed when the object's lifetime ends
  std::thread watch_;
};

}  // namespace fairdraw::cli
