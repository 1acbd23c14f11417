// Keeps a sampler's changes of the float environment from the code that judges the sampler.
#pragma once

#include <cfenv>

namespace fairdraw::harness {

/// Restores the float environment at the end of the scope: rounding mode, flush to zero, traps.
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
