// Settings for smaller tests under sanitizers, which make code about 10 times slower, and under
// compute-sanitizer, which makes kernels 20 to 100 times slower.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace fairdraw::suites {

inline bool is_reduced() { return std::getenv("FAIRDRAW_REDUCED") != nullptr; }

/// Returns a twentieth of `count` if tests are reduced; otherwise returns `count`.
inline std::uint64_t budget(std::uint64_t count) { return is_reduced() ? count / 20 : count; }

}  // namespace fairdraw::suites
