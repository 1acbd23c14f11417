// Tests that are made smaller: under sanitizers, where everything is some ten times slower, and
// kernels under compute-sanitizer 20 to 100 times.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace fairdraw::suites {

inline bool is_reduced() { return std::getenv("FAIRDRAW_REDUCED") != nullptr; }

/// A twentieth of `count` where tests are reduced.
inline std::uint64_t budget(std::uint64_t count) { return is_reduced() ? count / 20 : count; }

}  // namespace fairdraw::suites
