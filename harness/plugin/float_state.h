// The control registers of floating-point arithmetic: how a thread rounds, what it flushes to zero,
// and which exceptions trap. A sampler that leaves an exception unmasked has changed what its
// caller's arithmetic does: the next division by zero ends the process.
#pragma once

#include <cstdint>
#include <string>

namespace fairdraw::harness::plugin {

/// Registers that one process tells another of. They are looked at and never loaded: a reserved
/// bit would end the process.
struct FloatState {
  std::uint32_t control = 0;      ///< of x86 MXCSR, of ARM FPCR, elsewhere a mode of <cfenv>
  std::uint32_t x87_control = 0;  ///< of x86
};

/// That of this thread.
FloatState float_state();

/// True where the registers can hold it.
bool is_float_state(const FloatState& state);

/// Makes this thread round and flush as a state says that is one. Traps and all else stay its own.
void take_float_modes(const FloatState& state);

/// Which exceptions trap: bits of the hardware; 0: none, or not known on this kind of machine.
unsigned float_traps(const FloatState& state);

/// Names the fault of a call that found the traps `before` and left `after`: "left floating-point
/// exceptions unmasked (division by zero), ..."; empty where no exception traps that did not
/// before.
std::string unmasked_traps(unsigned before, unsigned after);

/// Masks what traps in this thread and did not `before`, and returns unmasked_traps() of it.
std::string mask_new_traps(unsigned before);

}  // namespace fairdraw::harness::plugin
