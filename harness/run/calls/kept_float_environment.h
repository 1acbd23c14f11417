// What a sampler does to the float environment must not reach whoever judges it.
#pragma once

#include <cfenv>

namespace fairdraw::harness {

/// Puts the float environment back at the end of the scope: rounding mode, flush to zero, traps.
class KeptFloatEnvironment {
 public:
  KeptFloatEnvironment() { std::fegetenv(&before_); }
  ~KeptFloatEnvironment() { std::fesetenv(&before_); }
  KeptFloatEnvironment(const KeptFloatEnvironment&) = delete;
  KeptFloatEnvironment& operator=(const KeptFloatEnvironment&) = delete;

 private:
  std::fenv_t before_{};
};

}  // namespace fairdraw::harness
