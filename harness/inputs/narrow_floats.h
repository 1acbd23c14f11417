// Converts float32 to and from the 16-bit formats in integer arithmetic, so that no rounding mode,
// hardware conversion or flush to zero can change a bit.
#pragma once

#include <cstdint>

namespace fairdraw::harness {

/// Rounds to nearest, and halves to even, and returns the 16-bit pattern. Values from the rounding
/// boundary of the largest finite value on give infinity, and NaN gives a quiet NaN of the same
/// sign.
std::uint16_t to_bfloat16(float value);
std::uint16_t to_float16(float value);

/// Returns the float32 of equal value, exactly. Infinities stay infinite, and NaN keeps its sign
/// and payload.
float from_bfloat16(std::uint16_t bits);
float from_float16(std::uint16_t bits);

}  // namespace fairdraw::harness
