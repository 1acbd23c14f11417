// Floats in order: integer keys that compare as the numbers do, -0 equal to +0.
#pragma once

#include <bit>
#include <cstdint>

#include "common/host_device.h"

namespace fairdraw {

/// Key of a float that is not NaN: a < b as numbers if and only if key(a) < key(b); the zeros
/// share key 0.
FAIRDRAW_HOST_DEVICE inline std::int32_t order_key(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits >= 0 ? bits : -(bits & 0x7fffffff);
}

/// The float of a key (the zero is +0).
FAIRDRAW_HOST_DEVICE inline float from_order_key(std::int32_t key) {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(key >= 0 ? key : -key);
  return std::bit_cast<float>(key >= 0 ? magnitude : (magnitude | 0x80000000U));
}

/// The next larger float; of the largest finite one, +inf.
FAIRDRAW_HOST_DEVICE inline float next_above(float value) {
  return from_order_key(order_key(value) + 1);
}

/// The next smaller float; of the smallest finite one, -inf.
FAIRDRAW_HOST_DEVICE inline float previous_below(float value) {
  return from_order_key(order_key(value) - 1);
}

}  // namespace fairdraw
