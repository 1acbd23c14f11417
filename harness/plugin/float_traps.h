// Floating-point exceptions that trap. A sampler that leaves one unmasked has changed what its
// caller's arithmetic does: the next division by zero ends the process.
#pragma once

#include <cfenv>
#include <string>

namespace fairdraw::harness::plugin {

/// Which exceptions trap in `environment`, or in this thread: bits of the hardware; 0: none, or
/// not known on this kind of machine.
unsigned float_traps(const std::fenv_t& environment);
unsigned float_traps();

std::fenv_t without_traps(std::fenv_t environment, unsigned traps);

/// What a call did that found `before` and left `after`: "left floating-point exceptions unmasked
/// (division by zero), ..."; empty where no exception traps that did not before.
std::string unmasked_traps(unsigned before, unsigned after);

/// Masks what traps in this thread and did not `before`, and returns unmasked_traps() of it.
std::string mask_new_traps(unsigned before);

}  // namespace fairdraw::harness::plugin
