// EXP2FIX at every float32 of [-41, 0], against exp2 in float64 (an error of 2^-52 or so).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "reference/integer_model.h"

#if defined(__SANITIZE_ADDRESS__)
#define FAIRDRAW_STRIDE 1021
#else
#define FAIRDRAW_STRIDE 1
#endif

namespace fairdraw::reference {
namespace {

// Sanitized code is some twenty times slower: every 1021st value (a prime, so that all low bits
// are met).
constexpr std::int64_t kStride = FAIRDRAW_STRIDE;

std::int64_t pattern(float magnitude) {
  return static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(magnitude));
}

// The distance whose magnitude has this bit pattern.
float minus(std::int64_t bits) { return -std::bit_cast<float>(static_cast<std::uint32_t>(bits)); }

// What was seen of the weights at distances from one pattern to another.
struct Sweep {
  std::int64_t checked = 0, above_one = 0, out_of_bound = 0, growing = 0;
  double largest_error = 0;  // relative, where truncation is below 2^-31 of the weight

  void add(const Sweep& other) {
    checked += other.checked;
    above_one += other.above_one;
    out_of_bound += other.out_of_bound;
    growing += other.growing;
    largest_error = std::max(largest_error, other.largest_error);
  }
};

Sweep sweep(std::int64_t first, std::int64_t last, std::int64_t stride) {
  constexpr double kOne = 0x1p40;
  Sweep seen;
  std::uint64_t nearer = static_cast<std::uint64_t>(kOne);
  if (first > 0) nearer = exp2fix(minus(first - 1));
  for (std::int64_t bits = first; bits <= last; bits += stride) {
    const std::uint64_t weight = exp2fix(minus(bits));
    const double exact = std::exp2(static_cast<double>(minus(bits))) * kOne;
    // 2^-21 + 2^(|y| - 40), relative to 2^y: 2^-21 of it and one unit.
    const double error = std::abs(static_cast<double>(weight) - exact);
    ++seen.checked;
    if (weight > static_cast<std::uint64_t>(kOne)) ++seen.above_one;
    if (!(error <= 0x1p-21 * exact + 1)) ++seen.out_of_bound;
    if (weight > nearer) ++seen.growing;
    if (exact >= 0x1p31) seen.largest_error = std::max(seen.largest_error, error / exact);
    nearer = weight;
  }
  return seen;
}

// That weights do not grow with the distance matters because filters compare logits: a threshold
// on the logit and one on the weight are then the same.
TEST(Exp2Fix, StaysWithinTheBoundOfTheSpecificationAndNeverGrows) {
  const std::int64_t last = pattern(41.0F);
  // For 0 < |y| < 2^-25 the fraction 1 - |y| rounds to 1, whatever y is: every 4093rd of those.
  const std::int64_t constant_below = pattern(0x1p-25F);
  Sweep seen = sweep(0, constant_below, 4093 * kStride);
  EXPECT_EQ(exp2fix(minus(1)), exp2fix(minus(constant_below - 1)));

  const std::int64_t chunk = 1 << 20;
  const std::int64_t chunks = (last - constant_below) / chunk + 1;
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t i = 0; i < chunks; ++i) {
    const std::int64_t first = constant_below + i * chunk;
    const Sweep part = sweep(first, std::min(first + chunk - 1, last), kStride);
#pragma omp critical
    seen.add(part);
  }
  EXPECT_GE(seen.checked, (last - constant_below + 1) / kStride);
  EXPECT_EQ(seen.above_one, 0);
  EXPECT_EQ(seen.out_of_bound, 0);
  EXPECT_EQ(seen.growing, 0);
  RecordProperty("largest_relative_error", fmt::format("{:.4e}", seen.largest_error));
}

TEST(Exp2Fix, IsZeroFarBelow) {
  // Below -41 the polynomial times 2^n is below 2 * 2^-42, so that nothing is left.
  std::int64_t nonzero = 0;
#pragma omp parallel for reduction(+ : nonzero) schedule(static)
  for (std::int64_t bits = pattern(41.0F) + 1; bits <= pattern(INFINITY); bits += 64 * kStride) {
    if (exp2fix(minus(bits)) != 0) ++nonzero;
  }
  EXPECT_EQ(nonzero, 0);
  EXPECT_EQ(exp2fix(-INFINITY), 0U);
}

TEST(MinPThreshold, IsTheNearestFloatToTheLogarithm) {
  // Every 4096th float32 of (0, 1]: 2^18 values. Half an ulp of the result, and log2l's own error
  // of at most one ulp of a 64-bit significand, 2^-63 of the result.
  std::int64_t wrong = 0;
#pragma omp parallel for reduction(+ : wrong) schedule(static)
  for (std::int64_t bits = 1; bits <= pattern(1.0F);
       bits += std::int64_t{4096} * (kStride == 1 ? 1 : 64)) {
    const auto min_p = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const long double exact = std::log2(static_cast<long double>(min_p));
    const float threshold = min_p_threshold(min_p);
    const long double half_ulp =
        (static_cast<long double>(std::nextafter(std::abs(threshold), INFINITY)) -
         static_cast<long double>(std::abs(threshold))) /
        2;
    if (!(std::abs(exact - threshold) <= half_ulp + std::abs(exact) * 0x1p-63L)) ++wrong;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(min_p_threshold(1), 0);
}

}  // namespace
}  // namespace fairdraw::reference
