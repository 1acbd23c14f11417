#include "harness/plugin/float_state.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

namespace fairdraw::harness::plugin {
namespace {

struct Trap {
  unsigned bit;
  std::string_view name;
};

#if defined(__x86_64__)
// In the register MXCSR, a set bit masks a floating-point exception. Both control registers have
// the exception bits in the same order.
constexpr unsigned kAll = 0x3f, kShiftOfVector = 7;
constexpr Trap kTraps[] = {{1, "invalid operation"}, {2, "subnormal operand"},
                           {4, "division by zero"},  {8, "overflow"},
                           {16, "underflow"},        {32, "inexact result"}};
constexpr unsigned kVectorModes = 0xe040, kVectorKnown = 0xffff;  // rounding, FTZ, DAZ
constexpr unsigned kX87Modes = 0x0c00, kX87Known = 0xffff;        // rounding

unsigned trapping(const FloatState& state) {
  return (~state.x87_control | ~(state.control >> kShiftOfVector)) & kAll;
}

// Reads only the control registers, because fegetenv() would take longer than a plugin's call may.
FloatState registers() {
  unsigned short x87_control = 0;
  asm volatile("fnstcw %0" : "=m"(x87_control));
  return {_mm_getcsr(), x87_control};
}

void set_registers(const FloatState& state) {
  const auto x87_control = static_cast<unsigned short>(state.x87_control);
  // Pending exceptions are cleared first, because unmasking one of them would end the process.
  asm volatile("fnclex\n\tfldcw %0" : : "m"(x87_control));
  _mm_setcsr(state.control);
}

bool is_known(const FloatState& state) {
  return (state.control & ~kVectorKnown) == 0 && (state.x87_control & ~kX87Known) == 0;
}

FloatState with_modes(const FloatState& own, const FloatState& given) {
  return {(own.control & ~kVectorModes) | (given.control & kVectorModes),
          (own.x87_control & ~kX87Modes) | (given.x87_control & kX87Modes)};
}

FloatState masked(const FloatState& own, unsigned traps) {
  return {own.control | traps << kShiftOfVector, own.x87_control | traps};
}
#elif defined(__aarch64__)
// In the register FPCR, a set bit lets a floating-point exception trap, on processors that support
// traps.
constexpr unsigned kAll = 0x9f00;
constexpr Trap kTraps[] = {{1U << 8, "invalid operation"}, {1U << 9, "division by zero"},
                           {1U << 10, "overflow"},         {1U << 11, "underflow"},
                           {1U << 12, "inexact result"},   {1U << 15, "subnormal operand"}};
constexpr unsigned kModes = 0x03c80000, kKnown = 0x07ffff07;  // rounding, FZ, FZ16, default NaN

unsigned trapping(const FloatState& state) { return state.control & kAll; }

FloatState registers() {
  std::uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return {static_cast<std::uint32_t>(control), 0};
}

void set_registers(const FloatState& state) {
  const std::uint64_t control = state.control;
  asm volatile("msr fpcr, %0" : : "r"(control));
}

bool is_known(const FloatState& state) {
  return (state.control & ~kKnown) == 0 && state.x87_control == 0;
}

FloatState with_modes(const FloatState& own, const FloatState& given) {
  return {(own.control & ~kModes) | (given.control & kModes), 0};
}

FloatState masked(const FloatState& own, unsigned traps) { return {own.control & ~traps, 0}; }
#else
constexpr Trap kTraps[] = {{0, ""}};
unsigned trapping(const FloatState&) { return 0; }
FloatState registers() { return {static_cast<std::uint32_t>(std::fegetround()), 0}; }
void set_registers(const FloatState& state) {
  std::fesetround(static_cast<int>(state.control));  // fails for a value that is no rounding mode
}
bool is_known(const FloatState& state) { return state.x87_control == 0; }
FloatState with_modes(const FloatState&, const FloatState& given) { return given; }
FloatState masked(const FloatState& own, unsigned) { return own; }
#endif

}  // namespace

FloatState float_state() { return registers(); }

bool is_float_state(const FloatState& state) { return is_known(state); }

void take_float_modes(const FloatState& state) { set_registers(with_modes(registers(), state)); }

unsigned float_traps(const FloatState& state) { return trapping(state); }

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
      "left floating-point exceptions unmasked ({}); such an exception would end the caller",
      names);
}

std::string mask_new_traps(unsigned before) {
  const FloatState own = registers();
  const unsigned after = trapping(own);
  if ((after & ~before) == 0) return {};
  set_registers(masked(own, after & ~before));
  return unmasked_traps(before, after);
}

}  // namespace fairdraw::harness::plugin
