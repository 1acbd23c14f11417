#include "suites/gate/run/time_left.h"

#include <algorithm>

namespace fairdraw::suites {

TimeLeft::TimeLeft(double expected, unsigned threads)
    : threads_(std::max(1U, threads)), not_begun_(expected) {}

void TimeLeft::begun(const std::string& name, double expected, double now) {
  running_[name] = {expected, now};
  not_begun_ -= expected;
}

void TimeLeft::ended(const std::string& name, double now) {
  const auto found = running_.find(name);
  if (found == running_.end()) return;
  over_expected_ += found->second.expected;
  over_took_ += now - found->second.begun;
  running_.erase(found);
}

double TimeLeft::seconds(double now) const {
  if (over_expected_ <= 0) return 0;
  const double scale = over_took_ / over_expected_;
  double longest = 0, all = std::max(0.0, not_begun_) * scale;
  for (const auto& [name, one] : running_) {
    const double left = std::max(0.0, one.expected * scale - (now - one.begun));
    longest = std::max(longest, left);
    all += left;
  }
  // At the end of a run, some threads only wait for other threads.
  return std::max(longest, all / threads_);
}

}  // namespace fairdraw::suites
