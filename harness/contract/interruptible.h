// Samplers whose calls can be ended from outside.
#pragma once

#include "harness/run/running_clock.h"

namespace fairdraw::harness {

class Interruptible {
 public:
  virtual ~Interruptible() = default;
  /// A call that has not answered by then is ended, and the sampler is broken.
  virtual void end_calls_at(RunningClock::time_point end) = 0;
};

}  // namespace fairdraw::harness
