// The clock that measures time limits. The clock stops while this process is stopped.
#pragma once

#include <algorithm>
#include <chrono>

namespace fairdraw::harness {

/// A clock of the time in which this process was running; it counts the beats of a thread that
/// starts at the first call. If the beats stop (SIGSTOP, Ctrl-Z, a suspended machine) or are late
/// on an overloaded machine, only a little of the gap counts, because the judged sampler did not
/// use that time.
struct RunningClock {
  // NOLINTBEGIN(readability-identifier-naming): the names that std::chrono asks of a clock
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<RunningClock>;
  static constexpr bool is_steady = true;
  // NOLINTEND(readability-identifier-naming)

  static time_point now();

  static constexpr std::chrono::milliseconds kBeat{25};
  /// Returns the part of the time between two readings of a steady clock that counts.
  static duration counted(duration elapsed) { return std::min<duration>(elapsed, 2 * kBeat); }
};

}  // namespace fairdraw::harness
