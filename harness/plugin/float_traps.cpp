#include "harness/plugin/float_traps.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace fairdraw::harness::plugin {
namespace {

struct Trap {
  unsigned bit;
  std::string_view name;
};

#if defined(__x86_64__)
// A set bit of either control register masks an exception; both have them in the same order.
constexpr unsigned kAll = 0x3f, kShiftOfVector = 7;
constexpr Trap kTraps[] = {{1, "invalid operation"}, {2, "subnormal operand"},
                           {4, "division by zero"},  {8, "overflow"},
                           {16, "underflow"},        {32, "inexact result"}};

unsigned trapping(unsigned x87_control, unsigned vector_control) {
  return (~x87_control | ~(vector_control >> kShiftOfVector)) & kAll;
}

unsigned trapping(const std::fenv_t& environment) {
  return trapping(environment.__control_word, environment.__mxcsr);
}

// The registers alone: fegetenv() takes longer than a plugin's call may.
unsigned trapping_here() {
  unsigned short x87_control = 0;
  asm volatile("fnstcw %0" : "=m"(x87_control));
  return trapping(x87_control, _mm_getcsr());
}

void mask(std::fenv_t& environment, unsigned traps) {
  environment.__control_word = static_cast<unsigned short>(environment.__control_word | traps);
  environment.__mxcsr |= traps << kShiftOfVector;
}
#elif defined(__aarch64__)
// A set bit of the control register lets an exception trap, where the processor can.
constexpr unsigned kAll = 0x9f00;
constexpr Trap kTraps[] = {{1U << 8, "invalid operation"}, {1U << 9, "division by zero"},
                           {1U << 10, "overflow"},         {1U << 11, "underflow"},
                           {1U << 12, "inexact result"},   {1U << 15, "subnormal operand"}};

unsigned trapping(const std::fenv_t& environment) { return environment.__fpcr & kAll; }

unsigned trapping_here() {
  std::uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return static_cast<unsigned>(control) & kAll;
}

void mask(std::fenv_t& environment, unsigned traps) { environment.__fpcr &= ~traps; }
#else
constexpr Trap kTraps[] = {{0, ""}};
unsigned trapping(const std::fenv_t&) { return 0; }
unsigned trapping_here() { return 0; }
void mask(std::fenv_t&, unsigned) {}
#endif

}  // namespace

unsigned float_traps(const std::fenv_t& environment) { return trapping(environment); }
unsigned float_traps() { return trapping_here(); }

std::fenv_t without_traps(std::fenv_t environment, unsigned traps) {
  mask(environment, traps);
  return environment;
}

std::string unmasked_traps(unsigned before, unsigned after) {
  const unsigned unmasked = after & ~before;
  if (unmasked == 0) return {};
  std::string names;
  for (const Trap& trap : kTraps) {
    if ((unmasked & trap.bit) == 0) continue;
    names += names.empty() ? "" : ", ";
    names += trap.name;
  }
  return fmt::format(
      "left floating-point exceptions unmasked ({}), so that they would have ended its caller",
      names);
}

std::string mask_new_traps(unsigned before) {
  const unsigned after = trapping_here();
  if ((after & ~before) == 0) return {};
  std::fenv_t environment{};
  std::fegetenv(&environment);
  environment = without_traps(environment, after & ~before);
  std::fesetenv(&environment);
  return unmasked_traps(before, after);
}

}  // namespace fairdraw::harness::plugin
