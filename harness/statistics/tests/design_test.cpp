// Tests the designs of tests: the tests find the discrepancies that the designs promise, and the
// numbers of draws are not wasteful.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "harness/statistics/statistics.h"
#include "harness/statistics/tests/outcomes.h"

namespace fairdraw::statistics {
namespace {

constexpr std::array<double, 4> kRates = {1e-12, 1e-9, 1e-6, 1e-3};
constexpr std::array<double, 6> kDiscrepancies = {1e-4, 1e-3, 0.01, 0.02, 0.1, 0.3};

// Expects min_discrepancy(min_num_samples(d)) to be at most d and at least d / 2, so that the draws
// suffice and are at most four times too many.
template <class MinNumSamples, class MinDiscrepancy>
void expect_design_is_sound(const MinNumSamples& min_num_samples,
                            const MinDiscrepancy& min_discrepancy) {
  for (const double fail : kRates) {
    for (const double pass : kRates) {
      for (const double discrepancy : kDiscrepancies) {
        SCOPED_TRACE(testing::Message() << fail << " " << pass << " " << discrepancy);
        const std::uint64_t draws = min_num_samples(discrepancy, fail, pass);
        EXPECT_LE(min_discrepancy(draws, fail, pass), discrepancy);
        EXPECT_GE(min_discrepancy(draws, fail, pass), discrepancy / 2);
        EXPECT_GT(min_discrepancy(draws - 1, fail, pass), discrepancy);
      }
    }
  }
}

TEST(Design, DkwmIsSound) { expect_design_is_sound(dkwm_min_num_samples, dkwm_min_discrepancy); }

TEST(Design, ChiSquaredIsSound) {
  for (const double dof : {1.0, 9.0, 31.0, 999.0}) {
    expect_design_is_sound(
        [=](double d, double fail, double pass) {
          return chi_squared_min_num_samples(d, dof, fail, pass);
        },
        [=](std::uint64_t draws, double fail, double pass) {
          return chi_squared_min_discrepancy(draws, dof, fail, pass);
        });
  }
}

TEST(Design, GIsSound) {
  for (const std::uint32_t cells : {2U, 10U, 32U, 1000U}) {
    expect_design_is_sound(
        [=](double d, double fail, double pass) { return g_min_num_samples(d, cells, fail, pass); },
        [=](std::uint64_t draws, double fail, double pass) {
          return g_min_discrepancy(draws, cells, fail, pass);
        });
  }
}

TEST(Design, BinomialIsSound) {
  for (const double p : {1e-6, 0.001, 0.2, 0.5, 0.9}) {
    expect_design_is_sound([=](double d, double fail,
                               double pass) { return binomial_min_num_samples(d, p, fail, pass); },
                           [=](std::uint64_t draws, double fail, double pass) {
                             return binomial_min_discrepancy(draws, p, fail, pass);
                           });
  }
}

// The test computes the exact power: the probabilities that binomial_detectable returns are found
// with the stated rate, and probabilities just inside are not.
TEST(Design, BinomialDetectableIsWhereThePowerIsReached) {
  for (const std::uint64_t trials : {50U, 1000U, 1000000U}) {
    for (const double p : {0.0, 0.001, 0.2, 0.5, 1.0}) {
      for (const double fail : kRates) {
        for (const double pass : kRates) {
          SCOPED_TRACE(testing::Message() << trials << " " << p << " " << fail << " " << pass);
          const DetectableProbabilities found = binomial_detectable(trials, p, fail, pass);
          // The difference 1 - power has an absolute error of 2^-53, which is 1e-3 of a miss rate
          // of 1e-12.
          const double rounding = 1e-3;
          const double step = 0x1p-26;  // a step that leads far out of the bracket of 4 ulp
          if (found.above) {
            EXPECT_LE(1 - binomial_power(trials, p, *found.above, fail), pass * (1 + rounding));
            const double inside = p + (*found.above - p) * (1 - step);
            EXPECT_GT(1 - binomial_power(trials, p, inside, fail), pass * (1 - rounding));
          }
          if (found.below) {
            EXPECT_LE(1 - binomial_power(trials, p, *found.below, fail), pass * (1 + rounding));
            const double inside = p - (p - *found.below) * (1 - step);
            EXPECT_GT(1 - binomial_power(trials, p, inside, fail), pass * (1 - rounding));
          }
        }
      }
    }
  }
}

// The test compares the power with its definition: the probability, under the actual distribution,
// of the outcomes with small p-values.
TEST(Design, BinomialPowerIsItsDefinition) {
  for (const double p : {0.05, 0.4}) {
    for (const double actual : {0.01, 0.2, 0.7}) {
      const std::array<double, 2> distribution = {actual, 1 - actual};
      double rejected = 0;
      for_each_outcome(distribution, 200, [&](std::span<const std::uint64_t> counts, double mass) {
        const bool on_its_side = (static_cast<double>(counts[0]) > 200 * p) == (actual > p);
        if (on_its_side && binomial_p_value(counts[0], 200, p) <= 1e-3) rejected += mass;
      });
      EXPECT_LE(std::abs(binomial_power(200, p, actual, 1e-3) - rejected), kRounding);
    }
  }
}

TEST(Design, BinomialFindsNothingWithoutDraws) {
  // For 40 draws of a fair coin even 40 heads have p = 2^-39 > 1e-12; 41 heads of 41 draws have
  // less.
  EXPECT_EQ(binomial_min_discrepancy(40, 0.5, 1e-12, 1e-6),
            std::numeric_limits<double>::infinity());
  EXPECT_LE(binomial_min_discrepancy(41, 0.5, 1e-12, 1e-6), 0.5);
  // In 1e6 draws of a token of probability 1e-5, the test cannot find that the token is never drawn
  // (a right sampler misses it with probability e^-10), but finds that the token is drawn too
  // often.
  const DetectableProbabilities rare = binomial_detectable(1000000, 1e-5, 1e-12, 1e-6);
  EXPECT_FALSE(rare.below);
  EXPECT_TRUE(rare.above);
  EXPECT_EQ(binomial_power(1000000, 1e-5, 0, 1e-12), 0);
}

// For two draws at probability 0.52, two successes are no alarm (2 * 0.27 > 1/2), and no success is
// one (2 * 0.23). No probability above 0.52 is found, so the discrepancy must be larger than the
// largest possible excess, 0.48.
TEST(Design, BinomialDiscrepancyLeavesNoRoomOnTheSideThatIsNotFound) {
  for (const double p : {0.52, 0.48}) {
    const DetectableProbabilities found = binomial_detectable(2, p, 0.5, 0.5);
    EXPECT_EQ(found.above.has_value(), p < 0.5);
    EXPECT_EQ(found.below.has_value(), p > 0.5);
    const double discrepancy = binomial_min_discrepancy(2, p, 0.5, 0.5);
    EXPECT_GT(discrepancy, 0.48);
    EXPECT_LT(discrepancy, 0.52);
  }
}

TEST(Design, DkwmIsTheCriticalDistanceAndAMargin) {
  const double margin = std::sqrt(std::log(1e6) / 2000);  // exp(-2 n margin^2) = 1e-6
  const double critical = dkwm_min_discrepancy(1000, 1e-12, 1e-6) - margin;
  // The bound allows for exp, which amplifies the rounding of its argument, 28.3 * 2^-50.
  EXPECT_LE(std::abs(dkwm_p_value(critical, 1000) / 1e-12 - 1), kRounding);
}

TEST(Design, DkwmMissesNoMoreThanItSays) {
  // With two cells, the difference of the distribution functions is that of the first probability.
  const std::vector<double> target = {0.5, 0.5};
  for (const double fail : {0.1, 1e-3}) {
    for (const double pass : {0.1, 1e-3}) {
      for (const std::uint64_t draws : {100U, 1000U}) {
        const double shift = dkwm_min_discrepancy(draws, fail, pass);
        if (shift > 0.5) continue;
        const std::vector<double> actual = {0.5 + shift, 0.5 - shift};
        double missed = 0;
        for_each_outcome(actual, draws, [&](std::span<const std::uint64_t> counts, double mass) {
          if (dkwm_p_value(cdf_distance(counts, target), draws) > fail) missed += mass;
        });
        EXPECT_LE(missed, pass);
        EXPECT_GT(missed, 0);
      }
    }
  }
}

TEST(Design, GMissesNoMoreThanItSays) {
  const std::vector<double> target = {0.3, 0.3, 0.4};
  for (const double fail : {0.1, 1e-3}) {
    for (const double pass : {0.1, 1e-3}) {
      const std::uint64_t draws = 400;
      const double shift = g_min_discrepancy(draws, 3, fail, pass);
      ASSERT_LT(shift, 0.3);
      const std::vector<std::vector<double>> distributions = {
          {0.3 - shift, 0.3, 0.4 + shift},
          {0.3 - shift, 0.3 + shift, 0.4},
          {0.3 + shift / 2, 0.3 + shift / 2, 0.4 - shift}};
      for (const std::vector<double>& actual : distributions) {
        double missed = 0;
        for_each_outcome(actual, draws, [&](std::span<const std::uint64_t> counts, double mass) {
          if (goodness_of_fit(counts, target).g_p_bound > fail) missed += mass;
        });
        EXPECT_LE(missed, pass);
      }
    }
  }
}

// The design by chi-squared is asymptotic, so the test measures its miss rate: 4000 runs of the
// distribution that is hardest to find (every cell off by the same factor), at a miss rate of one
// in ten.
TEST(Design, ChiSquaredMissesAboutAsOftenAsItSays) {
  const std::vector<double> target(10, 0.1);
  const double fail = 1e-3, pass = 0.1, discrepancy = 0.05;
  const std::uint64_t draws = chi_squared_min_num_samples(discrepancy, 9, fail, pass);
  std::vector<double> actual;
  for (int i = 0; i < 10; ++i) actual.push_back(0.1 * (1 + (i % 2 == 0 ? 2 : -2) * discrepancy));
  ASSERT_LE(std::abs(total_variation(actual, target) - discrepancy), kRounding);
  std::mt19937_64 generator(20260);
  std::uint64_t missed = 0;
  const std::uint64_t runs = 4000;
  for (std::uint64_t run = 0; run < runs; ++run) {
    const auto counts = draw_counts(actual, draws, generator);
    if (goodness_of_fit(counts, target).chi_squared_p_value > fail) ++missed;
  }
  const Interval rate = clopper_pearson_interval(missed, runs, 1e-9);
  EXPECT_LE(rate.lower, pass);
  EXPECT_GE(rate.upper, pass);
}

}  // namespace
}  // namespace fairdraw::statistics
