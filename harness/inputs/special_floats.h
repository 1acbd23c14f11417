// Lists special float32 values for inputs of edge cases.
#pragma once

#include <limits>

namespace fairdraw::harness {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kSmallest = std::numeric_limits<float>::denorm_min();  ///< above 0

}  // namespace fairdraw::harness
