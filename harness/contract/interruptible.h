// Declares an interface of samplers whose calls can be ended from outside.
#pragma once

#include "harness/run/running_clock.h"

namespace fairdraw::harness {

class Interruptible {
 public:
  virtual ~Interruptible() = default;
  /// Sets the deadline. Any call that has not returned by `end` is ended, and the sampler is broken
  /// after that.
  virtual void end_calls_at(RunningClock::time_point end) = 0;
};

}  // namespace fairdraw::harness
