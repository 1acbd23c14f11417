// Limits the time of a case and of a run.
#pragma once

#include <cstdint>
#include <string>

#include "harness/run/calls/forwarding_sampler.h"
#include "harness/run/running_clock.h"

namespace fairdraw::harness {

/// A time limit in seconds from its construction, counted while this process runs; 0: no limit.
class TimeLimit {
 public:
  using Clock = RunningClock;

  explicit TimeLimit(double seconds);

  double seconds() const { return seconds_; }
  Clock::time_point end() const { return end_; }
  bool is_over() const { return end_ != Clock::time_point::max() && Clock::now() >= end_; }

 private:
  double seconds_;
  Clock::time_point end_ = Clock::time_point::max();
};

/// Returns a text such as "the run took more than 60 s (--run-timeout)".
std::string run_is_over(const TimeLimit& run);

/// The sampler of a case, until the time limit of the case or of the run is reached. From then on
/// the sampler is broken, and forwards no calls. A call in flight is ended if the sampler is
/// Interruptible; otherwise the sampler waits for the end of the call.
class LimitedSampler final : public ForwardingSampler {
 public:
  LimitedSampler(Sampler& sampler, const TimeLimit& of_case, const TimeLimit& of_run);

  std::string broken() const override;
  /// Returns whether the time limit of the run was reached. In that case the sampler is not at
  /// fault, and the check's findings have no meaning.
  bool run_was_over() const { return run_was_over_; }

 private:
  std::string before_call() override;
  void after_call() override;
  void look_at_the_clock(bool unanswered);

  TimeLimit case_, run_;
  std::uint64_t calls_ = 0;
  std::string over_;
  bool run_was_over_ = false;
};

}  // namespace fairdraw::harness
