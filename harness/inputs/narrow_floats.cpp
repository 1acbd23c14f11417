#include "harness/inputs/narrow_floats.h"

#include <bit>

namespace fairdraw::harness {
namespace {

constexpr std::uint32_t kInfinityBits = 0x7f800000;

/// Removes the `count` lowest bits of `magnitude`, rounding to nearest, and halves to even. A carry
/// runs into the exponent, which correctly gives the next binade or infinity.
constexpr std::uint32_t shift_right_to_even(std::uint32_t magnitude, int count) {
  const std::uint32_t half_less_one = (std::uint32_t{1} << (count - 1)) - 1;
  const std::uint32_t odd = (magnitude >> count) & 1;
  return (magnitude + half_less_one + odd) >> count;
}

}  // namespace

std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > kInfinityBits) {
    return static_cast<std::uint16_t>(sign | (magnitude >> 16) | 0x40);
  }
  return static_cast<std::uint16_t>(sign | shift_right_to_even(magnitude, 16));
}

std::uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > kInfinityBits) {
    return static_cast<std::uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
  }
  constexpr std::uint32_t kRoundsToInfinity = 0x477ff000;  // 65520, halfway from 65504 to 2^16
  if (magnitude >= kRoundsToInfinity) return static_cast<std::uint16_t>(sign | 0x7c00);
  constexpr std::uint32_t kSmallestNormal = 0x38800000;  // 2^-14
  if (magnitude >= kSmallestNormal) {
    constexpr std::uint32_t kBiasDifference = (127 - 15) << 23;
    return static_cast<std::uint16_t>(sign | shift_right_to_even(magnitude - kBiasDifference, 13));
  }
  // The value is a subnormal float16, which is a multiple of 2^-24. The significand with its hidden
  // bit is a number of units of 2^(exponent - 150), so it is shifted right by (150 - 24) - exponent
  // bits, which is at least 14. With a shift of 25 or more bits the value is below 2^-25, half the
  // smallest subnormal, and rounds to zero.
  const int exponent = static_cast<int>(magnitude >> 23);
  const int shift = 126 - exponent;
  if (shift > 24) return static_cast<std::uint16_t>(sign);
  const std::uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
  return static_cast<std::uint16_t>(sign | shift_right_to_even(significand, shift));
}

float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float from_float16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1f;
  const std::uint32_t fraction = bits & 0x3ff;
  std::uint32_t magnitude = 0;
  if (exponent == 0x1f) {
    magnitude = kInfinityBits | (fraction << 13);
  } else if (exponent != 0) {
    magnitude = ((exponent + 127 - 15) << 23) | (fraction << 13);
  } else if (fraction != 0) {
    // The value is fraction * 2^-24, which is a normal float32. The highest bit that is set in the
    // fraction of a subnormal float16 is bit `top`.
    const int top = static_cast<int>(std::bit_width(fraction)) - 1;
    const std::uint32_t below = fraction ^ (std::uint32_t{1} << top);
    magnitude = (static_cast<std::uint32_t>(top + 127 - 24) << 23) | (below << (23 - top));
  }
  return std::bit_cast<float>(sign | magnitude);
}

}  // namespace fairdraw::harness
