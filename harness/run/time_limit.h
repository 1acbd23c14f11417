// Limits on the time of a case and of a run.
#pragma once

#include <cstdint>
#include <string>

#include "harness/run/calls/forwarding_sampler.h"
#include "harness/run/running_clock.h"

namespace fairdraw::harness {

/// Seconds from now on in which this process runs; 0: no limit.
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

/// "the run took more than 60 s (--run-timeout)"
std::string run_is_over(const TimeLimit& run);

/// The sampler of a case, until the case's time is over or the run's: then it is broken, and calls
/// are not passed on. A call that has begun is ended where the sampler is Interruptible; else it is
/// waited for.
class LimitedSampler final : public ForwardingSampler {
 public:
  LimitedSampler(Sampler& sampler, const TimeLimit& of_case, const TimeLimit& of_run);

  std::string broken() const override;
  /// The sampler is broken for no fault of its own: what the check made of that says nothing.
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
