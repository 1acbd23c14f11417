// Threshold of min_p for y, a logit's distance to the maximum in octaves: log2(min_p) as float32.
//
// The code uses only IEEE double operations (no libm), so that host and device agree. The argument
// is m * 2^e with m in [sqrt(1/2), sqrt(2)), and log2(m) = 2 / ln 2 * atanh((m - 1)/(m + 1)) by its
// series in s^2. |s| < 0.1716, s^2 < 0.02944; the first omitted term, s^26 / 27 relative, is below
// 4e-21. m - 1 is exact, so min_p close to 1 keeps its relative accuracy. Rounding to float32
// leaves at most 0.5001 ulp.
#pragma once

#include <bit>
#include <cstdint>

#include "common/host_device.h"

namespace fairdraw {

/// Returns log2(min_p) for min_p in (0, 1].
FAIRDRAW_HOST_DEVICE inline float min_p_octaves(float min_p) {
  // Each such float is a normal double, so its exponent and mantissa can be read from its bits.
  const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(min_p));
  auto exponent = static_cast<std::int32_t>(bits >> 52) - 1023;
  double mantissa =
      std::bit_cast<double>((bits & 0xfffffffffffffULL) | 0x3ff0000000000000ULL);  // [1, 2)
  if (mantissa > 0x1.6a09e667f3bcdp0) {                                            // sqrt(2)
    mantissa *= 0.5;
    exponent += 1;
  }
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double square = s * s;
  double series = 1.0 / 25.0;
  for (int k = 23; k >= 1; k -= 2) series = series * square + 1.0 / static_cast<double>(k);
  const double log2_mantissa = 0x1.71547652b82fep1 * s * series;  // 2 / ln 2
  return static_cast<float>(static_cast<double>(exponent) + log2_mantissa);
}

}  // namespace fairdraw
