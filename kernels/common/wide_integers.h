// Products that are wider than a machine word, for masses and draws.
#pragma once

#include <bit>
#include <cstdint>

#include "common/host_device.h"

namespace fairdraw {

/// Returns floor(a * b / 2^64).
FAIRDRAW_HOST_DEVICE inline std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>((static_cast<uint128_t>(a) * b) >> 64);
}

/// Returns floor(word * value / 2^64) for a value of 128 bits, from a product of 192 bits.
FAIRDRAW_HOST_DEVICE inline uint128_t multiply_high(std::uint64_t word, uint128_t value) {
  const uint128_t low = static_cast<uint128_t>(word) * static_cast<std::uint64_t>(value);
  const uint128_t high = static_cast<uint128_t>(word) * static_cast<std::uint64_t>(value >> 64);
  return high + (low >> 64);
}

/// Returns the mass that a nucleus must have, which is max(1, ceil(top_p * total)). Here top_p in
/// (0, 1] is the exact value of the float. The product has up to 152 bits.
FAIRDRAW_HOST_DEVICE inline uint128_t nucleus_target(float top_p, uint128_t total) {
  const auto bits = std::bit_cast<std::uint32_t>(top_p);
  const std::uint32_t exponent = bits >> 23;
  const std::uint64_t mantissa = exponent == 0 ? bits : ((bits & 0x7fffffU) | 0x800000U);
  const int shift = 150 - static_cast<int>(exponent == 0 ? 1 : exponent);  // 23 ... 149
  const uint128_t low = static_cast<uint128_t>(mantissa) * static_cast<std::uint64_t>(total);
  const uint128_t high =
      static_cast<uint128_t>(mantissa) * static_cast<std::uint64_t>(total >> 64) + (low >> 64);
  // The product is kept as 64-bit words, lowest first, because 128-bit shifts are slow on a GPU.
  // Whole words are dropped until fewer than 64 bits remain to be shifted out.
  std::uint64_t word0 = static_cast<std::uint64_t>(low);
  std::uint64_t word1 = static_cast<std::uint64_t>(high);
  std::uint64_t word2 = static_cast<std::uint64_t>(high >> 64);
  std::uint64_t below = 0;  // bits shifted out
  int rest = shift;
  for (; rest >= 64; rest -= 64) {
    below |= word0;
    word0 = word1;
    word1 = word2;
    word2 = 0;
  }
  if (rest > 0) {
    below |= word0 << (64 - rest);
    word0 = (word0 >> rest) | (word1 << (64 - rest));
    word1 = (word1 >> rest) | (word2 << (64 - rest));  // there is no higher word, because the
                                                       // target is at most `total`
  }
  const uint128_t target = ((static_cast<uint128_t>(word1) << 64) | word0) + (below != 0 ? 1U : 0U);
  return target == 0 ? uint128_t{1} : target;
}

/// Returns the number of zero bits above the highest set bit of a nonzero value.
FAIRDRAW_HOST_DEVICE inline int leading_zeros(std::uint64_t value) {
#if defined(__CUDA_ARCH__)
  return __clzll(static_cast<long long>(value));
#else
  return std::countl_zero(value);
#endif
}

/// Returns the double nearest to the value, where ties go to the even double. The function does not
/// use the compiler's own conversion, which calls library functions that differ between host and
/// device.
FAIRDRAW_HOST_DEVICE inline double nearest_double(uint128_t value) {
  const auto high = static_cast<std::uint64_t>(value >> 64);
  if (high == 0) return static_cast<double>(static_cast<std::uint64_t>(value));
  // The 64 highest bits. The conversion keeps 53 bits, so the lowest bit can represent all lower
  // bits, which only matter for breaking ties.
  const int zeros = leading_zeros(high);
  const uint128_t raised = value << zeros;
  const auto below = static_cast<std::uint64_t>(raised);
  const std::uint64_t top = static_cast<std::uint64_t>(raised >> 64) | (below != 0 ? 1U : 0U);
  const auto unit = std::bit_cast<double>(static_cast<std::uint64_t>(1023 + 64 - zeros) << 52);
  return static_cast<double>(top) * unit;  // the factor `unit` is a power of two, so the product is
                                           // not rounded again
}

}  // namespace fairdraw
