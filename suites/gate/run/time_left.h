// Estimates the remaining time of a run, from the expected times of its cases and the actual times
// of finished cases.
#pragma once

#include <map>
#include <string>

namespace fairdraw::suites {

/// An estimate of the remaining time of a run. Expected times may have any unit, because only their
/// ratios count. The caller passes the time of its clock, in seconds.
class TimeLeft {
 public:
  /// `expected` is the sum of the expected times of all cases. `threads` is the number of cases
  /// that run at a time.
  TimeLeft(double expected, unsigned threads);

  void begun(const std::string& name, double expected, double now);
  void ended(const std::string& name, double now);

  /// Returns the remaining seconds. The result is 0 before the first case has ended, because the
  /// speed of the machine is not known yet.
  double seconds(double now) const;

 private:
  struct Running {
    double expected;
    double begun;
  };
  unsigned threads_;
  double not_begun_;
  std::map<std::string, Running> running_;
  double over_expected_ = 0, over_took_ = 0;  ///< sums over finished cases: of the expected times,
                                              ///< and of the actual times
};

}  // namespace fairdraw::suites
