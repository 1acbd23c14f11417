// Products and conversions wider than a machine word (wide_integers.h) are compared with integers
// of any length. The GPU runs the same functions.
#include "common/wide_integers.h"

#include <gtest/gtest.h>

#include <bit>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace fairdraw::suites {
namespace {

using boost::multiprecision::cpp_int;

cpp_int any_length(uint128_t value) {
  return (cpp_int(static_cast<std::uint64_t>(value >> 64)) << 64) |
         static_cast<std::uint64_t>(value);
}

std::string hexadecimal(uint128_t value) {
  return any_length(value).str(0, std::ios_base::hex | std::ios_base::showbase);
}

/// Returns a random value whose number of significant bits ranges from 0 to 128.
uint128_t random_total(std::mt19937_64& random) {
  const uint128_t value = (static_cast<uint128_t>(random()) << 64) | random();
  const auto shift = static_cast<int>(random() % 129);
  return shift == 128 ? 0 : value >> shift;
}

/// Returns totals next to every power of two, and random totals.
std::vector<uint128_t> totals() {
  std::vector<uint128_t> values = {0, ~uint128_t{0}};
  for (int bit = 0; bit < 128; ++bit) {
    const uint128_t power = uint128_t{1} << bit;
    for (const uint128_t value : {power - 1, power, power + 1}) values.push_back(value);
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 600; ++i) values.push_back(random_total(random));
  return values;
}

/// Returns values of top_p: for every exponent of (0, 1] the smallest, the largest and a random
/// significand, and some subnormals.
std::vector<float> top_ps() {
  std::vector<float> values = {1.0F};
  std::mt19937_64 random(2);
  for (std::uint32_t exponent = 0; exponent < 127; ++exponent) {
    const std::uint32_t fraction = static_cast<std::uint32_t>(random()) & 0x7fffffU;
    for (const std::uint32_t low : {std::uint32_t{1}, fraction, std::uint32_t{0x7fffff}}) {
      values.push_back(std::bit_cast<float>((exponent << 23) | low));
    }
    if (exponent > 0) values.push_back(std::bit_cast<float>(exponent << 23));
  }
  return values;
}

/// Returns max(1, ceil(top_p * total)) by the definition; top_p 2^149 is an integer, so that the
/// computation is exact.
cpp_int exact_target(float top_p, const cpp_int& total) {
  const cpp_int product = cpp_int(std::ldexp(static_cast<double>(top_p), 149)) * total;
  const cpp_int unit = cpp_int(1) << 149;
  const cpp_int target = (product + unit - 1) / unit;
  return target == 0 ? cpp_int(1) : target;
}

TEST(NucleusTarget, IsExact) {
  for (const uint128_t total : totals()) {
    const cpp_int exact_total = any_length(total);
    for (const float top_p : top_ps()) {
      ASSERT_EQ(any_length(nucleus_target(top_p, total)), exact_target(top_p, exact_total))
          << std::hexfloat << top_p << " of " << hexadecimal(total);
    }
  }
}

TEST(MultiplyHigh, KeepsTheUpper128BitsOf192) {
  std::mt19937_64 random(3);
  for (const uint128_t value : totals()) {
    for (const std::uint64_t word :
         {std::uint64_t{0}, std::uint64_t{1}, random(), ~std::uint64_t{0}}) {
      ASSERT_EQ(any_length(multiply_high(word, value)), (cpp_int(word) * any_length(value)) >> 64)
          << word << " times " << hexadecimal(value);
    }
  }
}

/// Expects the nearer of the two doubles around the value; in a tie, the even one.
void expect_nearest(uint128_t value) {
  const double result = nearest_double(value);
  const cpp_int exact = any_length(value);
  const auto distance = [&exact](double candidate) {
    return cpp_int(abs(cpp_int(candidate) - exact));
  };
  const double above = std::nextafter(result, INFINITY);
  const double below = result == 0 ? 0 : std::nextafter(result, 0);
  const bool is_even = (std::bit_cast<std::uint64_t>(result) & 1U) == 0;
  for (const double other : {above, below}) {
    // skips the value itself if it is one of the two
    if (other == result || other != std::floor(other)) continue;
    const cpp_int nearer = distance(result);
    const cpp_int farther = distance(other);
    ASSERT_TRUE(nearer < farther || (nearer == farther && is_even))
        << hexadecimal(value) << " became " << std::hexfloat << result;
  }
  if (result < 0x1p53) {
    ASSERT_EQ(cpp_int(result), exact);
  }
}

TEST(NearestDouble, RoundsOnceToNearestTiesToEven) {
  EXPECT_EQ(nearest_double(0), 0);
  EXPECT_EQ(nearest_double(~uint128_t{0}), 0x1p128);
  for (const uint128_t value : totals()) expect_nearest(value);
  // Values of 54 significant bits have a last bit that is half a unit: these are ties and their
  // neighbours, at every position in the two words.
  std::mt19937_64 random(4);
  for (int shift = 0; shift <= 128 - 54; ++shift) {
    for (int i = 0; i < 64; ++i) {
      const std::uint64_t significand = (random() >> 11) | (std::uint64_t{1} << 52);
      const uint128_t tie = static_cast<uint128_t>(2 * significand + 1) << shift;
      for (const uint128_t value : {tie - 1, tie, tie + 1}) expect_nearest(value);
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
