// fresh_seed() gives a seed for a request without one.
//
// The header needs C++17 and the standard library alone.
#pragma once

#include <cstdint>

namespace fairdraw {

/// Returns 64 bits of the system's random generator (getentropy). So no two requests without a seed
/// draw the same tokens, whether they are in one process, in forked processes, or on machines that
/// start together. Some hundred nanoseconds. Throws std::system_error if the system's generator
/// gives no bits.
/// Errors: The exception is std::system_error, as said above.
std::uint64_t fresh_seed();

}  // namespace fairdraw
