// Samplers whose calls can be ended from outside.
#pragma once

#include <chrono>

namespace fairdraw::harness {

class Interruptible {
 public:
  virtual ~Interruptible() = default;
  /// A call that has not answered by then is ended, and the sampler is broken.
  virtual void end_calls_at(std::chrono::steady_clock::time_point end) = 0;
};

}  // namespace fairdraw::harness
