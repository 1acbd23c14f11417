// Compares the two-sample tests with enumerations in which every probability is known, and with
// their promised rates.
#include "harness/statistics/two_sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace fairdraw::statistics {
namespace {

double choose(std::uint64_t n, std::uint64_t k) {
  double value = 1;
  for (std::uint64_t i = 0; i < k; ++i) {
    value *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  }
  return value;
}

double binomial(std::uint64_t n, std::uint64_t k, double p) {
  return choose(n, k) * std::pow(p, static_cast<double>(k)) *
         std::pow(1 - p, static_cast<double>(n - k));
}

TEST(TwoSampleSet, IsFishersTestOfTheTeaCups) {
  // The example of Fisher 1935 compares 3 of 4 with 1 of 4. In this example 16 + 1 of the 70
  // possible choices are at least that good.
  EXPECT_NEAR(two_sample_set_p_value(3, 4, 1, 4), 2 * 17.0 / 70, 1e-12);
  EXPECT_NEAR(two_sample_set_p_value(1, 4, 3, 4), 2 * 17.0 / 70, 1e-12);
  EXPECT_NEAR(two_sample_set_p_value(4, 4, 0, 4), 2 * 1.0 / 70, 1e-13);
  EXPECT_EQ(two_sample_set_p_value(2, 4, 2, 4), 1);
  EXPECT_EQ(two_sample_set_p_value(0, 4, 0, 9), 1);
  EXPECT_EQ(two_sample_set_p_value(4, 4, 9, 9), 1);
}

TEST(TwoSampleSet, AccusesEqualDistributionsNoMoreOftenThanItSays) {
  // The test lists every pair of counts of 9 and 7 draws from the same distribution.
  for (const double p : {0.05, 0.3, 0.5, 0.9}) {
    for (const double level : {0.3, 0.1, 0.01, 1e-4}) {
      double rate = 0;
      for (std::uint64_t a = 0; a <= 9; ++a) {
        for (std::uint64_t b = 0; b <= 7; ++b) {
          if (two_sample_set_p_value(a, 9, b, 7) > level) continue;
          rate += binomial(9, a, p) * binomial(7, b, p);
        }
      }
      EXPECT_LE(rate, level * (1 + 1e-9)) << p;
    }
  }
}

TEST(TwoSampleSet, AccusesDistributionsWithinTheOddsRatioNoMoreOftenThanItSays) {
  const double odds = 1.5;
  for (const double p : {0.1, 0.5}) {
    const double tilted = odds * p / (1 - p + odds * p);  // 1.5 times the odds of p
    for (const double level : {0.3, 0.1, 0.01}) {
      double rate = 0;
      for (std::uint64_t a = 0; a <= 9; ++a) {
        for (std::uint64_t b = 0; b <= 9; ++b) {
          if (two_sample_set_p_value(a, 9, b, 9, odds) > level) continue;
          rate += binomial(9, a, tilted) * binomial(9, b, p);
        }
      }
      EXPECT_LE(rate, level * (1 + 1e-9)) << p;
    }
  }
  // A larger odds ratio allows more difference, so it never lowers the p-value.
  EXPECT_GT(two_sample_set_p_value(9, 20, 1, 20, 1.1), two_sample_set_p_value(9, 20, 1, 20));
}

TEST(TwoSampleSet, SeesALostLaneInItsFirstCounts) {
  // If a lane is drawn 195 times in one sample and never in the other, the p-value is below 2^-195
  // on either side, because draws without replacement miss more surely than coin flips: C(2n - s,
  // n) / C(2n, n) <= 2^-s.
  const double p_value = two_sample_set_p_value(195, 200'000, 0, 200'000);
  EXPECT_LE(p_value, 2 * std::pow(0.5, 195));
  EXPECT_GT(p_value, 2 * std::pow(0.49, 195));
  // A difference of one standard deviation, sqrt(s / 4), is noise.
  EXPECT_GT(two_sample_set_p_value(100'500, 1'000'000, 100'000, 1'000'000), 0.1);
}

TEST(TwoSampleSet, RefusesWhatItCannotCount) {
  EXPECT_THROW(two_sample_set_p_value(5, 4, 0, 4), std::invalid_argument);
  EXPECT_THROW(two_sample_set_p_value(0, 4, 5, 4), std::invalid_argument);
  EXPECT_THROW(two_sample_set_p_value(0, std::uint64_t{1} << 33U, 0, 4), std::invalid_argument);
  EXPECT_THROW(two_sample_set_p_value(1, 4, 1, 4, 0.5), std::invalid_argument);
  EXPECT_THROW(two_sample_set_p_value(1, 4, 1, 4, std::numeric_limits<double>::infinity()),
               std::invalid_argument);
}

TEST(TwoSampleDistance, AccusesEqualDistributionsNoMoreOftenThanItSays) {
  // The test lists every pair of counts of 40 and 30 draws over two cells.
  for (const double p : {0.1, 0.5}) {
    for (const double level : {0.3, 0.1, 0.01}) {
      const double critical = two_sample_critical_distance(2, 40, 30, 0, level);
      double rate = 0;
      for (std::uint64_t a = 0; a <= 40; ++a) {
        for (std::uint64_t b = 0; b <= 30; ++b) {
          const std::vector<std::uint64_t> first = {a, 40 - a}, second = {b, 30 - b};
          if (two_sample_distance(first, second) < critical) continue;
          rate += binomial(40, a, p) * binomial(30, b, p);
        }
      }
      EXPECT_LE(rate, level) << p;
    }
  }
}

TEST(TwoSampleDistance, FindsWhatItSaysItFinds) {
  // Two cells whose distributions are the stated distance apart are missed at most as often as
  // stated.
  const double discrepancy = two_sample_min_discrepancy(2, 200, 200, 0, 0.01, 0.01);
  ASSERT_LT(discrepancy, 0.5);
  const double critical = two_sample_critical_distance(2, 200, 200, 0, 0.01);
  double missed = 0;
  for (std::uint64_t a = 0; a <= 200; ++a) {
    for (std::uint64_t b = 0; b <= 200; ++b) {
      const std::vector<std::uint64_t> first = {a, 200 - a}, second = {b, 200 - b};
      if (two_sample_distance(first, second) >= critical) continue;
      missed += binomial(200, a, 0.5) * binomial(200, b, 0.5 + discrepancy);
    }
  }
  EXPECT_LE(missed, 0.01);
}

TEST(TwoSampleDistance, CriticalDistanceAndBoundAreInverse) {
  for (const double distance : {0.0, 1e-3}) {
    const double critical = two_sample_critical_distance(32, 100'000, 50'000, distance, 1e-12);
    const double bound = two_sample_distance_bound(critical, 32, 100'000, 50'000, distance);
    EXPECT_NEAR(std::log(bound), std::log(1e-12), 1e-9);
  }
  EXPECT_EQ(two_sample_distance_bound(0, 2, 1, 1, 0), 1);
  EXPECT_NEAR(two_sample_critical_distance(2, 100, 100, 0.25, 0.01) -
                  two_sample_critical_distance(2, 100, 100, 0, 0.01),
              0.25, 1e-15);
}

TEST(TwoSampleDistance, IsThatOfTheFrequencies) {
  const std::vector<std::uint64_t> a = {1, 1, 2}, b = {10, 10, 0};
  EXPECT_DOUBLE_EQ(two_sample_distance(a, b), 0.5);
  const std::vector<std::uint64_t> none = {0, 0, 0};
  EXPECT_THROW(two_sample_distance(a, none), std::invalid_argument);
}

}  // namespace
}  // namespace fairdraw::statistics
