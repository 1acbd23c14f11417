// Restores the default floating-point environment for samplers that would otherwise compute in the
// caller's environment.
#pragma once

#include <cfenv>

namespace fairdraw::harness {

/// A guard that sets the default rounding mode, without flush to zero, until the end of the scope.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() {
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&callers_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t callers_{};
};

}  // namespace fairdraw::harness
