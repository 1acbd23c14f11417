// float32 to and from the 16-bit formats, in integer arithmetic: no rounding mode, no hardware
// conversion and no flush to zero can change a bit.
#pragma once

#include <cstdint>

namespace fairdraw::harness {

/// Rounds to nearest, ties to even; the 16-bit pattern. Beyond the largest finite value's rounding
/// boundary: infinity. NaN: a quiet NaN of the same sign.
std::uint16_t to_bfloat16(float value);
std::uint16_t to_float16(float value);

/// The float32 of equal value (exact). Infinities stay; NaN keeps its sign and payload.
float from_bfloat16(std::uint16_t bits);
float from_float16(std::uint16_t bits);

}  // namespace fairdraw::harness
