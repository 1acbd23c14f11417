// The control registers of floating-point arithmetic: how a thread rounds, which values it flushes
// to zero, and which exceptions trap. A sampler that leaves an exception unmasked breaks its
// caller's arithmetic: the next division by zero ends the process.
#pragma once

#include <cstdint>
#include <string>

namespace fairdraw::harness::plugin {

/// Register contents sent from one process to another. Float states are compared and never loaded
/// unchanged, because a reserved bit would end the process.
struct FloatState {
  std::uint32_t control = 0;      ///< x86: MXCSR; ARM: FPCR; elsewhere a mode of <cfenv>
  std::uint32_t x87_control = 0;  ///< x86: the x87 control word
};

/// Returns the state of this thread.
FloatState float_state();

/// True if the registers can hold the state.
bool is_float_state(const FloatState& state);

/// Makes this thread round and flush as in `state`. The thread's traps and all other settings stay.
/// Precondition: is_float_state(state).
void take_float_modes(const FloatState& state);

/// Returns the exceptions that trap, as bits of the hardware; 0 if none does, or if this kind of
/// machine does not tell.
unsigned float_traps(const FloatState& state);

/// Describes the traps that a call left unmasked: "left floating-point exceptions unmasked
/// (division by zero), ...". The text is empty if no exception traps that did not trap before.
std::string unmasked_traps(unsigned before, unsigned after);

/// Masks the exceptions that trap in this thread now and not in `before`, and returns
/// unmasked_traps() of them.
std::string mask_new_traps(unsigned before);

}  // namespace fairdraw::harness::plugin
