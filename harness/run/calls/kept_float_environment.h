// Protects the code that judges a sampler from the sampler's changes of the floating-point
// environment.
#pragma once

#include <cfenv>

namespace fairdraw::harness {

/// A guard that restores the floating-point environment at the end of the scope: rounding mode,
/// flush to zero, traps.
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
