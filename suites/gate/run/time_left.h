// Estimate of the remaining time of a run, from the expected times of its cases and the actual
// times of finished ones.
#pragma once

#include <map>
#include <string>

namespace fairdraw::suites {

/// The state of an estimate of remaining time. Expected times may have any unit, because only their
/// ratios count. The caller passes the time of its clock, in seconds.
class TimeLeft {
 public:
  /// `expected`: sum of the expected times of all cases. `threads`: number of cases that run at a
  /// time.
  TimeLeft(double expected, unsigned threads);

  void begun(const std::string& name, double expected, double now);
  void ended(const std::string& name, double now);

  /// Returns the remaining seconds, or 0 before the first case has ended, because the speed of the
  /// machine is still unknown.
  double seconds(double now) const;

 private:
  struct Running {
    double expected;
    double begun;
  };
  unsigned threads_;
  double not_begun_;
  std::map<std::string, Running> running_;
  double over_expected_ = 0, over_took_ = 0;  ///< sums over finished cases: expected and actual
                                              ///< times
};

}  // namespace fairdraw::suites
