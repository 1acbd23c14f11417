// Reads the values of a call's matrices exactly, as float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "reference/integer_model.h"

namespace fairdraw::harness {

/// Returns value number `index` of an array of dtype 0 (float32), 1 (float16) or 2 (bfloat16), at
/// any alignment.
inline float decode(const void* values, std::uint32_t dtype, std::int64_t index) {
  const bool wide = dtype == 0;
  const auto at = static_cast<std::size_t>(index) * (wide ? 4 : 2);
  const std::byte* const source = static_cast<const std::byte*>(values) + at;
  if (wide) {
    float value = 0;
    std::memcpy(&value, source, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, source, sizeof(bits));
  return dtype == 1 ? reference::float_from_half(bits) : reference::float_from_bfloat16(bits);
}

}  // namespace fairdraw::harness
