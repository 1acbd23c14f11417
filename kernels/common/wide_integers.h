// Products wider than a machine word, for masses and draws.
#pragma once

#include <bit>
#include <cstdint>

#include "common/host_device.h"

namespace fairdraw {

/// floor(a * b / 2^64).
FAIRDRAW_HOST_DEVICE inline std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>((static_cast<uint128_t>(a) * b) >> 64);
}

/// floor(word * value / 2^64) for a value of 128 bits: the product has 192.
FAIRDRAW_HOST_DEVICE inline uint128_t multiply_high(std::uint64_t word, uint128_t value) {
  const uint128_t low = static_cast<uint128_t>(word) * static_cast<std::uint64_t>(value);
  const uint128_t high = static_cast<uint128_t>(word) * static_cast<std::uint64_t>(value >> 64);
  return high + (low >> 64);
}

/// Mass that a nucleus must hold: max(1, ceil(top_p * total)), top_p the float taken exactly.
/// top_p in (0, 1], total at most 2^60.
FAIRDRAW_HOST_DEVICE inline std::uint64_t nucleus_target(float top_p, std::uint64_t total) {
  const auto bits = std::bit_cast<std::uint32_t>(top_p);
  const std::uint32_t exponent = bits >> 23;
  const std::uint64_t mantissa =
      exponent == 0 ? bits : ((bits & 0x7fffffU) | 0x800000U);  // top_p = mantissa * 2^-shift
  const int shift = 150 - static_cast<int>(exponent == 0 ? 1 : exponent);
  const uint128_t product = static_cast<uint128_t>(mantissa) * total;  // below 2^84
  const auto low = static_cast<std::uint64_t>(product);
  const auto high = static_cast<std::uint64_t>(product >> 64);
  // In words of 64 bits, because a GPU shifts 128 slowly. shift is at least 23.
  std::uint64_t target = 0;
  std::uint64_t below = 0;  // what is shifted out
  if (shift < 64) {
    target = (low >> shift) | (high << (64 - shift));
    below = low << (64 - shift);
  } else if (shift < 128) {
    target = shift == 64 ? high : high >> (shift - 64);
    below = low | (shift == 64 ? 0 : high << (128 - shift));
  } else {
    below = low | high;
  }
  target += below != 0 ? 1 : 0;
  return target == 0 ? 1 : target;
}

}  // namespace fairdraw
