// Every float32 of [-63, 0] against exp2 in float64 (correct to well below 2^-50).
#include <gtest/gtest.h>

#include <atomic>
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

TEST(Exp2Fix, StaysWithinTheBoundOfTheSpecification) {
  constexpr double kOne = 0x1p40;
  std::int64_t above_one = 0, out_of_bound = 0, checked = 0;
  double largest_error = 0;
#pragma omp parallel for reduction(+ : above_one, out_of_bound, checked) \
    reduction(max : largest_error) schedule(static)
  for (std::int64_t bits = 0; bits <= pattern(41.0F); bits += kStride) {
    const float y = -std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const std::uint64_t weight = exp2fix(y);
    const double exact = std::exp2(static_cast<double>(y)) * kOne;
    // 2^-21 + 2^(|y| - 40), relative to 2^y: 2^-21 of it and one unit.
    const double error = std::abs(static_cast<double>(weight) - exact);
    if (weight > static_cast<std::uint64_t>(kOne)) ++above_one;
    if (!(error <= 0x1p-21 * exact + 1)) ++out_of_bound;
    if (exact >= 0x1p30) largest_error = std::max(largest_error, error / exact);
    ++checked;
  }
  EXPECT_EQ(checked, pattern(41.0F) / kStride + 1);
  EXPECT_EQ(above_one, 0);
  EXPECT_EQ(out_of_bound, 0);
  RecordProperty("largest_relative_error", std::to_string(largest_error));
}

TEST(Exp2Fix, IsZeroFarBelow) {
  // Below -41 the polynomial times 2^n is below 2 * 2^-42, so that nothing is left.
  std::int64_t nonzero = 0;
#pragma omp parallel for reduction(+ : nonzero) schedule(static)
  for (std::int64_t bits = pattern(41.0F) + 1; bits <= pattern(INFINITY); bits += 64 * kStride) {
    const float y = -std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (exp2fix(y) != 0) ++nonzero;
  }
  EXPECT_EQ(nonzero, 0);
  EXPECT_EQ(exp2fix(-INFINITY), 0U);
}

// Whether a weight can grow where the distance to the maximum grows decides whether thresholds on
// the logit and on the weight agree.
TEST(Exp2Fix, DoesNotGrowWithTheDistance) {
  std::int64_t grows = 0;
#pragma omp parallel for reduction(+ : grows) schedule(static)
  for (std::int64_t bits = 0; bits < pattern(41.0F); bits += kStride) {
    const float y = -std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const float further = -std::bit_cast<float>(static_cast<std::uint32_t>(bits + 1));
    if (exp2fix(further) > exp2fix(y)) ++grows;
  }
  RecordProperty("places_where_it_grows", std::to_string(grows));
  EXPECT_EQ(grows, 0);
}

TEST(MinPThreshold, IsTheNearestFloatToTheLogarithm) {
  // Every 4096th float32 of (0, 1]: 2^18 values. Half an ulp of the result, and log2l's own error
  // of at most one ulp of a 64-bit significand, 2^-63 of the result.
  std::int64_t wrong = 0;
#pragma omp parallel for reduction(+ : wrong) schedule(static)
  for (std::int64_t bits = 1; bits <= pattern(1.0F); bits += 4096 * (kStride == 1 ? 1 : 64)) {
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
