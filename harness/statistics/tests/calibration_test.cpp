// Tests that p-values are at least as large as uniform ones under the null hypothesis: P(p <= a) <=
// a for every a. The tests list every outcome of small distributions, so they are not random.
//
// These tests do not cover errors that only appear with large numbers of draws; see
// known_answers_test.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "harness/statistics/statistics.h"
#include "harness/statistics/tests/outcomes.h"

namespace fairdraw::statistics {
namespace {

const std::vector<std::vector<double>> kDistributions = {
    {0.5, 0.5},
    {0.9, 0.1},
    {0.01, 0.99},
    {0.25, 0.25, 0.5},
    {0.98, 0.01, 0.01},
    {0.4, 0.3, 0.2, 0.1},
    {0.125, 0.125, 0.25, 0.375, 0.125},
    {0.97, 0.01, 0.01, 0.01},
};
const std::array<std::uint64_t, 5> kDraws = {1, 2, 5, 12, 25};

template <class PValue>
double worst_ratio_over_distributions(const PValue& p_value) {
  double worst = 0;
  for (const auto& distribution : kDistributions) {
    for (const std::uint64_t draws : kDraws) {
      std::vector<Atom> atoms;
      for_each_outcome(distribution, draws,
                       [&](std::span<const std::uint64_t> counts, double probability) {
                         atoms.push_back({p_value(counts, distribution), probability});
                       });
      worst = std::max(worst, worst_ratio(atoms));
    }
  }
  return worst;
}

TEST(Calibration, OutcomesAddUpToOne) {
  for (const auto& distribution : kDistributions) {
    double sum = 0;
    for_each_outcome(distribution, 25, [&](std::span<const std::uint64_t>, double p) { sum += p; });
    EXPECT_LE(std::abs(sum - 1), kRounding);
  }
}

TEST(Calibration, BinomialPValueIsValid) {
  double worst = 0;
  for (const std::uint64_t trials : {1U, 2U, 5U, 10U, 30U, 100U, 300U}) {
    for (const double p : {0.001, 0.02, 0.1, 0.25, 0.5, 0.77, 0.999}) {
      const std::array<double, 2> distribution = {p, 1 - p};
      std::vector<Atom> atoms;
      for_each_outcome(distribution, trials,
                       [&](std::span<const std::uint64_t> counts, double mass) {
                         atoms.push_back({binomial_p_value(counts[0], trials, p), mass});
                       });
      worst = std::max(worst, worst_ratio(atoms));
    }
  }
  EXPECT_LE(worst, 1 + kRounding);
  EXPECT_GT(worst, 0.5);  // so p-values are less than twice too large
}

TEST(Calibration, BinomialPValueOfCertainOutcomes) {
  EXPECT_EQ(binomial_p_value(0, 1000, 0), 1);
  EXPECT_EQ(binomial_p_value(1, 1000, 0), 0);
  EXPECT_EQ(binomial_p_value(1000, 1000, 1), 1);
  EXPECT_EQ(binomial_p_value(999, 1000, 1), 0);
  EXPECT_EQ(binomial_p_value(0, 0, 0.3), 1);
}

TEST(Calibration, DkwmPValueIsValid) {
  const double worst =
      worst_ratio_over_distributions([](auto counts, const std::vector<double>& distribution) {
        std::uint64_t draws = 0;
        for (const std::uint64_t count : counts) draws += count;
        return dkwm_p_value(cdf_distance(counts, distribution), draws);
      });
  EXPECT_LE(worst, 1 + kRounding);
}

TEST(Calibration, GBoundIsValid) {
  const double worst =
      worst_ratio_over_distributions([](auto counts, const std::vector<double>& distribution) {
        return goodness_of_fit(counts, distribution).g_p_bound;
      });
  EXPECT_LE(worst, 1 + kRounding);
}

TEST(Calibration, ExactMultinomialPValueIsExact) {
  const double worst =
      worst_ratio_over_distributions([](auto counts, const std::vector<double>& distribution) {
        return exact_multinomial_p_value(counts, distribution);
      });
  EXPECT_LE(worst, 1 + kRounding);
  EXPECT_GE(worst, 1 - kRounding);  // P(p <= a) == a at every atom a: exact, not only valid
}

// Pearson's p-value does not decide, because at small expected counts it gives many times too many
// false alarms. The test measures the number of false alarms in one small case. (Two draws of a
// token of probability 1/100 suffice for a false alarm.)
TEST(Calibration, ChiSquaredPValueIsNotValidForSmallExpectedCounts) {
  const double worst =
      worst_ratio_over_distributions([](auto counts, const std::vector<double>& distribution) {
        return goodness_of_fit(counts, distribution).chi_squared_p_value;
      });
  EXPECT_GT(worst, 1000);
}

TEST(Calibration, ClopperPearsonCovers) {
  for (const double rate : {0.5, 0.1, 1e-3, 1e-6}) {
    for (const std::uint64_t trials : {1U, 5U, 40U}) {
      for (const double p : {0.0, 0.001, 0.1, 0.3, 0.5, 0.9, 1.0}) {
        const std::array<double, 2> distribution = {p, 1 - p};
        double missed = 0;
        for_each_outcome(
            distribution, trials, [&](std::span<const std::uint64_t> counts, double mass) {
              const Interval interval = clopper_pearson_interval(counts[0], trials, rate);
              if (p < interval.lower || p > interval.upper) missed += mass;
            });
        EXPECT_LE(missed, rate * (1 + kRounding)) << p << " " << trials << " " << rate;
      }
    }
  }
}

TEST(Calibration, TotalVariationIntervalCovers) {
  // Each distribution in turn is that of the sampler, and each other distribution of the same size
  // is the target.
  for (const double rate : {0.5, 0.1, 0.01}) {
    for (const auto& truth : kDistributions) {
      for (const auto& target : kDistributions) {
        if (truth.size() != target.size()) continue;
        const double distance = total_variation(truth, target);
        double missed = 0;
        for_each_outcome(truth, 25, [&](std::span<const std::uint64_t> counts, double mass) {
          const double observed = goodness_of_fit(counts, target).total_variation;
          const Interval interval = total_variation_interval(
              observed, static_cast<std::uint32_t>(target.size()), 25, rate);
          if (distance < interval.lower || distance > interval.upper) missed += mass;
        });
        EXPECT_LE(missed, rate);
      }
    }
  }
}

TEST(Calibration, TotalVariationSlackIsRarelyExceeded) {
  for (const double rate : {0.5, 0.1, 0.01, 1e-6}) {
    for (const auto& distribution : kDistributions) {
      const double slack = total_variation_slack(distribution, 25, rate);
      double exceeded = 0;
      for_each_outcome(distribution, 25, [&](std::span<const std::uint64_t> counts, double mass) {
        if (goodness_of_fit(counts, distribution).total_variation > slack) exceeded += mass;
      });
      EXPECT_LE(exceeded, rate);
    }
  }
}

// With 1000 equal cells and 100 draws, at least 900 cells are empty, so the observed distribution
// is always at least 0.9 away from the right distribution. No bound may count this distance as
// evidence against the sampler.
TEST(Calibration, ManyCellsAndFewDrawsProveNothing) {
  const std::vector<double> distribution(1000, 0.001);
  std::vector<std::uint64_t> counts(1000, 0);
  std::fill(counts.begin(), counts.begin() + 100, 1);
  const double observed = goodness_of_fit(counts, distribution).total_variation;
  EXPECT_LE(std::abs(observed - 0.9), kRounding);
  EXPECT_EQ(total_variation_interval(observed, 1000, 100, 0.5).lower, 0);
  EXPECT_GE(total_variation_slack(distribution, 100, 0.5), observed);
  EXPECT_EQ(goodness_of_fit(counts, distribution).g_p_bound, 1);
}

// The test combines two independent binomial tests, with all pairs of outcomes.
TEST(Calibration, CombinationsAreValid) {
  std::vector<Atom> fisher, bonferroni, global;
  const std::array<double, 2> first = {0.3, 0.7}, second = {0.5, 0.5};
  for_each_outcome(first, 40, [&](std::span<const std::uint64_t> a, double mass_a) {
    for_each_outcome(second, 30, [&](std::span<const std::uint64_t> b, double mass_b) {
      const double pair[] = {binomial_p_value(a[0], 40, 0.3), binomial_p_value(b[0], 30, 0.5)};
      fisher.push_back({fisher_p_value(pair), mass_a * mass_b});
      bonferroni.push_back({bonferroni_p_value(pair), mass_a * mass_b});
      global.push_back({global_p_value(pair), mass_a * mass_b});
    });
  });
  EXPECT_LE(worst_ratio(fisher), 1 + kRounding);
  EXPECT_LE(worst_ratio(bonferroni), 1 + kRounding);
  EXPECT_LE(worst_ratio(global), 1 + kRounding);
}

// The test compares G by its definition, computed term by term in long double, with the form that
// does not cancel.
TEST(Calibration, GoodnessOfFitIsItsDefinition) {
  const std::vector<double> distribution = {0.4, 0.3, 0.2, 0.1};
  for_each_outcome(distribution, 12, [&](std::span<const std::uint64_t> counts, double) {
    const GoodnessOfFit fit = goodness_of_fit(counts, distribution);
    long double g = 0, pearson = 0, distance = 0;
    for (std::size_t i = 0; i < distribution.size(); ++i) {
      const long double expected = 12.0L * distribution[i];
      const long double observed = static_cast<long double>(counts[i]);
      if (counts[i] > 0) g += 2 * observed * std::log(observed / expected);
      pearson += (observed - expected) * (observed - expected) / expected;
      distance += std::abs(observed - expected) / 24;
    }
    // The terms of the definition are below 24 ln(10) * 4 < 2^8, and each is off by 2^-53 of this
    // size.
    EXPECT_LE(std::abs(fit.g - static_cast<double>(g)), 0x1p-42);
    EXPECT_LE(std::abs(fit.chi_squared - static_cast<double>(pearson)), 0x1p-42);
    EXPECT_LE(std::abs(fit.total_variation - static_cast<double>(distance)), 0x1p-42);
    EXPECT_GE(fit.g, 0);
    EXPECT_EQ(fit.dof, 3);
  });
}

TEST(Calibration, OneCellCanNotBeWrong) {
  const std::uint64_t counts[] = {17};
  const double distribution[] = {1.0};
  const GoodnessOfFit fit = goodness_of_fit(counts, distribution);
  EXPECT_EQ(fit.g_p_bound, 1);
  EXPECT_EQ(fit.chi_squared_p_value, 1);
  EXPECT_EQ(fit.dof, 0);
  EXPECT_EQ(exact_multinomial_p_value(counts, distribution), 1);
}

}  // namespace
}  // namespace fairdraw::statistics
