#include "harness/inputs/narrow_floats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace fairdraw::harness {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// Returns the value of a bit pattern in a 16-bit format, by the format's definition, as a double.
double defined_value(std::uint16_t bits, int fraction_bits, int bias) {
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int largest_exponent = (1 << (15 - fraction_bits)) - 1;
  double magnitude = 0;
  if (exponent == largest_exponent) {
    magnitude = fraction == 0 ? HUGE_VAL : std::nan("");
  } else {
    const int significand = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
    magnitude = std::ldexp(significand, std::max(exponent, 1) - bias - fraction_bits);
  }
  return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(Float16, all_patterns_have_their_value_and_come_back) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float value = from_float16(pattern);
    const double expected = defined_value(pattern, 10, 15);
    ASSERT_EQ(std::isnan(value), std::isnan(expected)) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
    if (std::isnan(value)) {
      ASSERT_EQ(to_float16(value), pattern | 0x200) << bits;  // quiet
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << bits;
      ASSERT_EQ(to_float16(value), pattern) << bits;
    }
  }
}

TEST(Bfloat16, all_patterns_have_their_value_and_come_back) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float value = from_bfloat16(pattern);
    const double expected = defined_value(pattern, 7, 127);
    ASSERT_EQ(std::isnan(value), std::isnan(expected)) << bits;
    if (std::isnan(value)) {
      ASSERT_EQ(to_bfloat16(value), pattern | 0x40) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << bits;
      ASSERT_EQ(to_bfloat16(value), pattern) << bits;
    }
  }
}

/// Tests three points between every two neighbouring values; these points decide all float32
/// values, because rounding is monotone.
void expect_nearest_even(std::uint16_t (*to)(float), float (*from)(std::uint16_t),
                         std::uint16_t infinity) {
  for (std::uint16_t low = 0; low + 1 < infinity; ++low) {
    const auto high = static_cast<std::uint16_t>(low + 1);
    const std::uint16_t even = low % 2 == 0 ? low : high;
    const float middle = std::midpoint(from(low), from(high));  // exact, because the midpoint needs
                                                                // only one bit more
    for (const int sign : {0x0000, 0x8000}) {
      const auto round = [&](float magnitude) { return to(sign == 0 ? magnitude : -magnitude); };
      ASSERT_EQ(round(std::nextafter(middle, 0.0f)), low | sign) << low;
      ASSERT_EQ(round(middle), even | sign) << low;
      ASSERT_EQ(round(std::nextafter(middle, kInf)), high | sign) << low;
    }
  }
}

TEST(Float16, rounds_to_nearest_even_between_all_neighbours) {
  expect_nearest_even(to_float16, from_float16, 0x7c00);
}

TEST(Bfloat16, rounds_to_nearest_even_between_all_neighbours) {
  // Half of the smallest subnormal is 2^-134, which float32 represents exactly, as it does every
  // midpoint.
  expect_nearest_even(to_bfloat16, from_bfloat16, 0x7f80);
}

TEST(Float16, overflows_to_infinity_from_halfway_to_the_next_power_of_two) {
  EXPECT_EQ(to_float16(65504.0f), 0x7bff);                        // (2 - 2^-10) 2^15, the largest
  EXPECT_EQ(to_float16(std::nextafter(65520.0f, 0.0f)), 0x7bff);  // 65504 + 16 = halfway
  EXPECT_EQ(to_float16(65520.0f), 0x7c00);
  EXPECT_EQ(to_float16(-std::numeric_limits<float>::max()), 0xfc00);
  EXPECT_EQ(to_float16(kInf), 0x7c00);
  EXPECT_EQ(to_float16(-kInf), 0xfc00);
}

TEST(Bfloat16, overflows_to_infinity_from_halfway_to_the_next_power_of_two) {
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x7f7f7fffu)), 0x7f7f);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x7f7f8000u)), 0x7f80);
  EXPECT_EQ(to_bfloat16(-std::numeric_limits<float>::max()), 0xff80);
  EXPECT_EQ(to_bfloat16(kInf), 0x7f80);
}

TEST(NarrowFloats, a_nan_whose_payload_is_cut_off_stays_a_nan) {
  const float nan = std::bit_cast<float>(0x7f800001u);
  EXPECT_EQ(to_bfloat16(nan), 0x7fc0);
  EXPECT_EQ(to_float16(nan), 0x7e00);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0xffffffffu)), 0xffff);
  EXPECT_EQ(to_float16(std::bit_cast<float>(0xffffffffu)), 0xffff);
}

}  // namespace
}  // namespace fairdraw::harness
