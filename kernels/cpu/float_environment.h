// Floating-point environment that the specification requires: rounding to nearest, and subnormal
// numbers kept. The destructor of the guard restores the settings of the caller (FTZ, DAZ, the
// rounding mode, unmasked exceptions).
#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace fairdraw::cpu {

/// Sets the floating-point environment of the calling thread. Code under the guard must be reached
/// through a call that the compiler cannot move across the guard; for example, the passes are
/// called through pointers.
class FloatEnvironment {
 public:
#if defined(__x86_64__)
  FloatEnvironment() : saved_(_mm_getcsr()) {
    constexpr unsigned kNearestMaskedNoFlush = 0x1f80;  // value of the register after a reset of
                                                        // the processor
    _mm_setcsr(kNearestMaskedNoFlush);
  }
  ~FloatEnvironment() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
  FloatEnvironment() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}) : "memory");
  }
  ~FloatEnvironment() { asm volatile("msr fpcr, %0" : : "r"(saved_) : "memory"); }
#else
  FloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatEnvironment() { std::fesetenv(&saved_); }
#endif
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__x86_64__)
  unsigned saved_;
#elif defined(__aarch64__)
  std::uint64_t saved_ = 0;
#else
  std::fenv_t saved_;
#endif
};

}  // namespace fairdraw::cpu
