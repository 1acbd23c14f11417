#include "harness/inputs/ieee_math.h"

#include <gtest/gtest.h>

#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <limits>

#include "harness/inputs/counter_random.h"

namespace fairdraw::harness {
namespace {

/// Returns the difference in units in the last place of `expected`.
long double ulps(double actual, long double expected) {
  const auto rounded = static_cast<double>(expected);
  const double ulp = std::nextafter(std::abs(rounded), INFINITY) - std::abs(rounded);
  return std::abs(static_cast<long double>(actual) - expected) / static_cast<long double>(ulp);
}

TEST(NaturalLog, is_within_two_ulps_of_long_double) {
  const CounterRandom random(1);
  long double largest = 0;
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    // Half of the arguments cover all normal exponents; the others are near 1, where ln is 0.
    const std::uint64_t word = random.word(i);
    const std::uint64_t exponent = i % 2 == 0 ? 1 + (word >> 52) % 2046 : 1022 + (word >> 52) % 2;
    const auto x = std::bit_cast<double>(exponent << 52 | (word & 0x000fffffffffffff));
    largest = std::max(largest, ulps(natural_log(x), std::log(static_cast<long double>(x))));
  }
  EXPECT_LE(largest, 2.0L);
}

TEST(NaturalLog, is_rounded_to_nearest_at_the_points_that_matter) {
  EXPECT_EQ(natural_log(1.0), 0.0);
  EXPECT_EQ(natural_log(2.0), 0x1.62e42fefa39efp-1);  // ln 2, rounded to nearest
  EXPECT_EQ(natural_log(0.5), -0x1.62e42fefa39efp-1);
  EXPECT_EQ(natural_log(1.0 + 0x1p-52), 0x1.fffffffffffffp-53);  // x - x^2 / 2 = 2^-52 - 2^-105
  EXPECT_EQ(natural_log(1.0 - 0x1p-53), -0x1p-53);
}

TEST(NormalQuantile, has_the_relative_error_of_its_source) {
  // Acklam states a relative error of 1.15e-9, which is reached near the ends of the branches, so
  // the scan is dense there. The difference 1 - p is exact for these p, so the same bound holds for
  // the upper half.
  constexpr double kStatedRelativeError = 1.15e-9;
  const boost::math::normal normal;
  const auto check = [&](double p) {
    const double expected = p < 0.5 ? quantile(normal, p) : -quantile(normal, 1.0 - p);
    EXPECT_LE(std::abs(normal_quantile(p) - expected), kStatedRelativeError * std::abs(expected))
        << p;
  };
  const CounterRandom random(2);
  for (std::uint64_t i = 0; i < 50'000; ++i) check(open_uniform(random.word(i)));
  for (int e = 2; e <= 53; ++e) {
    for (double m : {1.0, 1.25, 1.5, 1.75}) check(std::ldexp(m, -e));
  }
  for (int i = -100; i <= 100; ++i) {
    check(kQuantileTail * (1 + i * 0x1p-20));
    check(1 - kQuantileTail * (1 + i * 0x1p-20));
  }
  EXPECT_EQ(normal_quantile(0.5), 0.0);
}

TEST(NormalQuantile, is_antisymmetric) {
  const CounterRandom random(3);
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const double p = open_uniform(random.word(i));
    EXPECT_EQ(normal_quantile(1.0 - p), -normal_quantile(p)) << p;
  }
}

TEST(OpenUniform, never_reaches_an_end_and_is_symmetric) {
  EXPECT_EQ(open_uniform(0), 0x1p-53);
  EXPECT_EQ(open_uniform(~std::uint64_t{0}), 1 - 0x1p-53);
  const CounterRandom random(4);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(open_uniform(~random.word(i)), 1.0 - open_uniform(random.word(i)));
  }
}

// These are the words that SplitMix64 gives from the state 1234567, as its public-domain C source
// prints them (S. Vigna, splitmix64.c).
TEST(CounterRandom, is_splitmix64) {
  const CounterRandom random(1234567);
  EXPECT_EQ(random.word(0), 6457827717110365317u);
  EXPECT_EQ(random.word(1), 3203168211198807973u);
  EXPECT_EQ(random.word(2), 9817491932198370423u);
  EXPECT_EQ(random.word(3), 4593380528125082431u);
  EXPECT_EQ(random.word(4), 16408922859458223821u);
}

TEST(CounterRandom, below_stays_below_and_reaches_every_value) {
  const CounterRandom random(5);
  for (const std::uint64_t bound : {1u, 2u, 3u, 17u}) {
    std::uint64_t seen = 0;
    for (std::uint64_t i = 0; i < 2000; ++i) {  // one of 17 values is missed at 1e-52
      ASSERT_LT(random.below(bound, i), bound);
      seen |= std::uint64_t{1} << random.below(bound, i);
    }
    EXPECT_EQ(seen, (std::uint64_t{1} << bound) - 1);
  }
  EXPECT_LT(random.below(std::uint64_t{1} << 32, 0), std::uint64_t{1} << 32);
}

TEST(Permutation, takes_every_value_once) {
  for (const std::uint64_t size : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u, 31u, 32u, 33u, 1000u, 128256u}) {
    const Permutation permutation(CounterRandom(size), size);
    std::vector<bool> seen(size, false);
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t value = permutation(i);
      ASSERT_LT(value, size);
      ASSERT_FALSE(seen[value]) << size << " " << i;
      seen[value] = true;
    }
  }
}

}  // namespace
}  // namespace fairdraw::harness
