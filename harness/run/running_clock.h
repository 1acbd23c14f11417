// The clock of time limits: it stands still while this process does.
#pragma once

#include <algorithm>
#include <chrono>

namespace fairdraw::harness {

/// Counts the time in which this process was running, by the beats of a thread that is started at
/// the first question. Where the beats stopped (SIGSTOP, Ctrl-Z, a suspended machine), or came late
/// on a machine with too much to do, little of the gap counts: who is judged has not used it up.
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
  /// Returns how much counts of the time between two looks at a steady clock.
  static duration counted(duration elapsed) { return std::min<duration>(elapsed, 2 * kBeat); }
};

}  // namespace fairdraw::harness
