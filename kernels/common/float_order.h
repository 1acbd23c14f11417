// Integer keys that have the order of the floats they stand for, with -0 equal to +0.
#pragma once

#include <bit>
#include <cstdint>

#include "common/host_device.h"

namespace fairdraw {

/// Returns the key of a float that is not NaN. For two numbers, a < b holds if and only if key(a) <
/// key(b); both zeros have the key 0.
FAIRDRAW_HOST_DEVICE inline std::int32_t order_key(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits >= 0 ? bits : -(bits & 0x7fffffff);
}

/// Returns the float that has a given key, which is +0 for the key 0.
FAIRDRAW_HOST_DEVICE inline float from_order_key(std::int32_t key) {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(key >= 0 ? key : -key);
  return std::bit_cast<float>(key >= 0 ? magnitude : (magnitude | 0x80000000U));
}

/// Returns the next larger float, which is +inf for the largest finite float.
FAIRDRAW_HOST_DEVICE inline float next_above(float value) {
  return from_order_key(order_key(value) + 1);
}

/// Returns the next smaller float, which is -inf for the smallest finite float.
FAIRDRAW_HOST_DEVICE inline float previous_below(float value) {
  return from_order_key(order_key(value) - 1);
}

}  // namespace fairdraw
