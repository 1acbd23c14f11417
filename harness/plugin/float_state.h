// Reads and sets the control registers of floating-point arithmetic, which say how a thread rounds,
// which values it flushes to zero, and which exceptions trap. A sampler that leaves an exception
// unmasked breaks its caller's arithmetic, because the next division by zero ends the process.
#pragma once

#include <cstdint>
#include <string>

namespace fairdraw::harness::plugin {

/// The contents of the registers, as one process sends them to another. Such states are compared
/// but never loaded unchanged, because a reserved bit would end the process.
struct FloatState {
  std::uint32_t control = 0;      ///< x86: MXCSR; ARM: FPCR; otherwise a mode of <cfenv>
  std::uint32_t x87_control = 0;  ///< x86: the x87 control word
};

/// Returns the floating-point state of this thread.
FloatState float_state();

/// True if the registers can hold the state.
bool is_float_state(const FloatState& state);

/// Makes this thread round and flush to zero as `state` says. The thread's traps and all its other
/// settings are not changed. Precondition: is_float_state(state).
void take_float_modes(const FloatState& state);

/// Returns the exceptions that trap, as bits of the hardware; 0 if no exception traps, or if this
/// kind of machine does not say.
unsigned float_traps(const FloatState& state);

/// Returns a text about the traps that a call left unmasked: "left floating-point exceptions
/// unmasked (division by zero), ...". The text is empty if no exception traps now that did not trap
/// before.
std::string unmasked_traps(unsigned before, unsigned after);

/// Masks the exceptions that trap in this thread now but not in `before`, and returns
/// unmasked_traps() of these exceptions.
std::string mask_new_traps(unsigned before);

}  // namespace fairdraw::harness::plugin
