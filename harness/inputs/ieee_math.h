// Computes the natural logarithm and the normal quantile from the IEEE operations + - * / sqrt in a
// fixed order, so that every machine gets the same bits. The logarithm of a C library may differ
// between machines.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace fairdraw::harness {

/// Returns ln(x) for finite normal x > 0, within 2 units in the last place (the tests measure this
/// against long double; the truncated rest of the series is 2e-20 of its value).
inline double natural_log(double x) {
  // Splits x = 2^exponent * m with m in [sqrt(1/2), sqrt(2)).
  constexpr std::uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t above = bits - kSqrtHalf;
  const auto exponent = static_cast<double>(static_cast<std::int64_t>(above) >> 52);
  const auto m = std::bit_cast<double>((above & 0x000fffffffffffff) + kSqrtHalf);

  // ln(m) = 2 atanh(s) = 2 s (1 + s^2 / 3 + s^4 / 5 + ...), |s| <= 0.1716.
  const double f = m - 1.0;  // exact (Sterbenz)
  const double s = f / (2.0 + f);
  const double z = s * s;
  double series = 1.0 / 23;
  series = series * z + 1.0 / 21;
  series = series * z + 1.0 / 19;
  series = series * z + 1.0 / 17;
  series = series * z + 1.0 / 15;
  series = series * z + 1.0 / 13;
  series = series * z + 1.0 / 11;
  series = series * z + 1.0 / 9;
  series = series * z + 1.0 / 7;
  series = series * z + 1.0 / 5;
  series = series * z + 1.0 / 3;
  // The formula uses 2 s = f - f s, so that f carries the leading part of the result without the
  // rounding error of the division.
  const double log_m = f - s * (f - 2.0 * z * series);

  // These two constants add up to ln 2. The first part of ln 2 ends in 21 zero bits, so its product
  // with an exponent is exact.
  constexpr double kLn2High = 0x1.62e42fee00000p-1;
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  return exponent * kLn2High + (exponent * kLn2Low + log_m);
}

/// The function normal_quantile uses its central branch for p in [kQuantileTail, 1 -
/// kQuantileTail].
inline constexpr double kQuantileTail = 0.02425;

/// Computes the normal quantile in the central branch, as a ratio of polynomials in (p - 1/2)^2.
inline double normal_quantile_central(double p) {
  const double q = p - 0.5;
  const double r = q * q;
  const double numerator =
      (((((-3.969683028665376e+01 * r + 2.209460984245205e+02) * r - 2.759285104469687e+02) * r +
         1.383577518672690e+02) *
            r -
        3.066479806614716e+01) *
           r +
       2.506628277459239e+00) *
      q;
  const double denominator =
      ((((-5.447609879822406e+01 * r + 1.615858368580409e+02) * r - 1.556989798598866e+02) * r +
        6.680131188771972e+01) *
           r -
       1.328068155288572e+01) *
          r +
      1.0;
  return numerator / denominator;
}

/// Computes the normal quantile in the lower tail, p in (0, kQuantileTail), as a ratio of
/// polynomials in sqrt(-2 ln p).
inline double normal_quantile_lower(double p) {
  const double q = std::sqrt(-2.0 * natural_log(p));
  const double numerator =
      ((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838e+00) * q -
        2.549732539343734e+00) *
           q +
       4.374664141464968e+00) *
          q +
      2.938163982698783e+00;
  const double denominator =
      (((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996e+00) * q +
       3.754408661907416e+00) *
          q +
      1.0;
  return numerator / denominator;
}

/// Returns the z below which the standard normal distribution has probability p; p is in (0, 1),
/// and 1 - p must be exact. The method is that of P. J. Acklam, "An algorithm for computing the
/// inverse normal cumulative distribution function" (2003); its relative error is below 1.15e-9, a
/// fiftieth of a float32 rounding.
inline double normal_quantile(double p) {
  if (p < kQuantileTail) return normal_quantile_lower(p);
  if (p > 1.0 - kQuantileTail) return -normal_quantile_lower(1.0 - p);
  return normal_quantile_central(p);
}

}  // namespace fairdraw::harness
