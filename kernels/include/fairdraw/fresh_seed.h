// A seed for a request that brings none.
//
// C++17, the standard library alone.
#pragma once

#include <cstdint>

namespace fairdraw {

/// 64 bits of the system's own generator (getentropy), so that no two requests without a seed draw
/// the same tokens: not two of one process, of forked ones, or of machines that start together.
/// Some hundred nanoseconds. Throws std::system_error where the system has none to give.
/// Errors: The exception is std::system_error, as said above.
std::uint64_t fresh_seed();

}  // namespace fairdraw
