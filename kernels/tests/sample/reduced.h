// Smaller tests under sanitizers, which slow everything down some ten times, and kernels under
// compute-sanitizer 20 to 100 times.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace fairdraw::suites {

inline bool is_reduced() { return std::getenv("FAIRDRAW_REDUCED") != nullptr; }

/// Returns a twentieth of `count` if tests are reduced, otherwise `count`.
inline std::uint64_t budget(std::uint64_t count) { return is_reduced() ? count / 20 : count; }

}  // namespace fairdraw::suites
