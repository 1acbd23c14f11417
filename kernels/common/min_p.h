// Computes the threshold of min_p for y, which is the distance of a logit to the row's maximum in
// octaves: the threshold is log2(min_p) as float32.
//
// The code uses only operations on IEEE doubles and no function of the C library, so that host and
// device agree. The argument is m * 2^e with m in [sqrt(1/2), sqrt(2)). The series log2(m) = 2 / ln
// 2 * atanh(s), with s = (m - 1)/(m + 1), is summed in powers of s^2. Here |s| < 0.1716 and s^2 <
// 0.02944, so the first omitted term, which is s^26 / 27 relative to the sum, is below 4e-21. The
// difference m - 1 is exact, so a min_p close to 1 keeps its relative accuracy. The result, after
// rounding to float32, has an error of at most 0.5001 units in the last place.
#pragma once

#include <bit>
#include <cstdint>

#include "common/host_device.h"

namespace fairdraw {

/// Returns log2(min_p) for min_p in (0, 1].
FAIRDRAW_HOST_DEVICE inline float min_p_octaves(float min_p) {
  // Every float in this range is a normal double, so the exponent and the mantissa can be read from
  // the double's bits.
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
