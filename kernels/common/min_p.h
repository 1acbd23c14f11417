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

/// Parts of a logarithm: x = 2^exponent m, and ln m = 2 s series.
struct LogarithmParts {
  double exponent, s, series;
};

/// Returns the parts of the logarithm of a normal double above 0, whose exponent and mantissa can
/// be read from its bits.
FAIRDRAW_HOST_DEVICE inline LogarithmParts logarithm_of(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
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
  return {static_cast<double>(exponent), s, series};
}

/// Returns log2(min_p) for min_p in (0, 1]. Every float in this range is a normal double.
FAIRDRAW_HOST_DEVICE inline float min_p_octaves(float min_p) {
  const LogarithmParts log = logarithm_of(static_cast<double>(min_p));
  const double log2_mantissa = 0x1.71547652b82fep1 * log.s * log.series;  // 2 / ln 2
  return static_cast<float>(log.exponent + log2_mantissa);
}

}  // namespace fairdraw
