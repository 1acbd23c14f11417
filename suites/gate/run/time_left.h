// How long a run still takes: from what its cases were expected to take, and what those that are
// over did take.
#pragma once

#include <map>
#include <string>

namespace fairdraw::suites {

/// The books of a run that goes on. Expected times may have any unit: only their ratios count. The
/// clock is the caller's, in seconds.
class TimeLeft {
 public:
  /// `expected`: of all cases together. `threads`: how many run at a time.
  TimeLeft(double expected, unsigned threads);

  void begun(const std::string& name, double expected, double now);
  void ended(const std::string& name, double now);

  /// 0 before the first case has ended: nothing says how fast the machine is then.
  double seconds(double now) const;

 private:
  struct Running {
    double expected;
    double begun;
  };
  unsigned threads_;
  double not_begun_;
  std::map<std::string, Running> running_;
  double over_expected_ = 0, over_took_ = 0;  ///< of the cases that are over
};

}  // namespace fairdraw::suites
