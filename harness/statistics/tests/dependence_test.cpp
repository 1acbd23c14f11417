// Tests the randomised transform and the tests of streams of its values: exactly where a few draws
// can be listed, otherwise by measurements at fixed seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <numbers>
#include <random>

#include "harness/statistics/statistics.h"
#include "harness/statistics/tests/outcomes.h"

namespace fairdraw::statistics {
namespace {

TEST(Pit, MapsTokensOntoTheirPartsOfTheUnitInterval) {
  const std::vector<double> distribution = {0.25, 0.0, 0.5, 0.25};
  const std::vector<double> prefix = prefix_sums(distribution);
  EXPECT_EQ(prefix, (std::vector<double>{0.25, 0.25, 0.75, 1.0}));
  const std::uint64_t half = std::uint64_t{1} << 63;
  EXPECT_EQ(randomized_pit(prefix, 0, 0), 0.25 * 0x1p-53);
  EXPECT_EQ(randomized_pit(prefix, 0, half), 0.125 + 0.25 * 0x1p-53);
  EXPECT_EQ(randomized_pit(prefix, 2, half), 0.5);  // 0.5 + 0.5 * 2^-53 rounds to even
  EXPECT_EQ(randomized_pit(prefix, 1, half), 0.25);
  EXPECT_LE(randomized_pit(prefix, 3, ~std::uint64_t{0}), 1.0);
  EXPECT_GE(randomized_pit(prefix, 3, ~std::uint64_t{0}), 1 - 0x1p-53);
  const std::vector<std::uint64_t> weights = {1, 1, 3, 4};
  for (const std::int64_t token : {0, 2, 3}) {
    EXPECT_EQ(randomized_pit(weights, token, half + 12345),
              randomized_pit(prefix, token, half + 12345));
  }
}

// The test combines every token with each of 1024 equally likely values of v. Then u is uniform up
// to the grid of v.
TEST(Pit, IsUniformForEveryDistribution) {
  for (const auto& distribution :
       {std::vector<double>{1.0}, std::vector<double>{0.3, 0.7}, zipf_distribution(100)}) {
    const std::vector<double> prefix = prefix_sums(distribution);
    std::vector<Atom> atoms;
    double largest = 0;
    for (std::size_t token = 0; token < distribution.size(); ++token) {
      largest = std::max(largest, distribution[token]);
      for (std::uint64_t step = 0; step < 1024; ++step) {
        atoms.push_back({randomized_pit(prefix, static_cast<std::int64_t>(token), step << 54),
                         distribution[token] / 1024});
      }
    }
    std::sort(atoms.begin(), atoms.end(),
              [](const Atom& a, const Atom& b) { return a.value < b.value; });
    double upto = 0, distance = 0;
    for (const Atom& atom : atoms) {
      upto += atom.probability;
      distance = std::max(distance, std::abs(upto - atom.value));
    }
    EXPECT_LE(distance, largest / 1024 + kRounding);
  }
}

TEST(Pit, PrefixSumsOfALargeVocabularyEndAtOne) {
  const std::vector<double> prefix = prefix_sums(zipf_distribution(131072));
  EXPECT_TRUE(std::is_sorted(prefix.begin(), prefix.end()));
  // The bound is the error of normalising the distribution: 131072 roundings of 2^-53.
  EXPECT_LE(std::abs(prefix.back() - 1), 131072 * 0x1p-53);
}

// The test lists all 2^n patterns of sides, which are equally likely under the null hypothesis.
TEST(LagAgreement, IsExactForEveryLag) {
  const std::size_t n = 12;
  for (std::size_t lag = 1; lag < n; ++lag) {
    std::vector<Atom> atoms;
    for (std::uint32_t pattern = 0; pattern < (1U << n); ++pattern) {
      std::vector<double> values(n);
      for (std::size_t i = 0; i < n; ++i) values[i] = (pattern >> i) % 2 == 0 ? 0.2 : 0.8;
      atoms.push_back({lag_agreement_p_value(values, lag), std::ldexp(1.0, -static_cast<int>(n))});
    }
    EXPECT_LE(worst_ratio(atoms), 1 + kRounding) << lag;
    // The statistic is symmetric, so both tails are used.
    EXPECT_GE(worst_ratio(atoms), 1 - kRounding) << lag;
  }
}

// Returns the values u of a stream whose normal scores have correlation `rho` at `lag`.
std::vector<double> stream(std::size_t size, double rho, std::size_t lag, std::uint64_t seed) {
  const boost::math::normal_distribution<double> normal;
  std::mt19937_64 generator(seed);
  std::vector<double> scores(size), values(size);
  for (std::size_t i = 0; i < size; ++i) {
    const double fresh = quantile(normal, uniform(generator) + 0x1p-54);
    scores[i] = i < lag ? fresh : rho * scores[i - lag] + std::sqrt(1 - rho * rho) * fresh;
    values[i] = cdf(normal, scores[i]);
  }
  return values;
}

// In 20000 streams without dependence, the number of p-values <= a must be compatible with a rate
// of at most a.
TEST(Dependence, PValuesAreValidOnIndependentStreams) {
  const int runs = 20000;
  const std::vector<double> levels = {0.5, 0.1, 0.01, 1e-3};
  std::vector<std::vector<std::uint64_t>> alarms(4, std::vector<std::uint64_t>(levels.size(), 0));
  for (int run = 0; run < runs; ++run) {
    const std::vector<double> values = stream(64, 0, 1, 1000 + static_cast<std::uint64_t>(run));
    const std::span<const double> all = values;
    const double p_values[] = {
        lag_correlation_p_value(values, 1), lag_correlation_p_value(values, 7),
        pair_correlation_p_value(all.first(32), all.last(32)), uniformity_p_value(values)};
    for (std::size_t test = 0; test < alarms.size(); ++test) {
      for (std::size_t level = 0; level < levels.size(); ++level) {
        if (p_values[test] <= levels[level]) ++alarms[test][level];
      }
    }
  }
  for (const auto& of_test : alarms) {
    for (std::size_t level = 0; level < levels.size(); ++level) {
      // The test makes 16 comparisons at fixed seeds. Each comparison would fail for a valid
      // p-value with probability 1e-9.
      EXPECT_GT(binomial_upper_tail(of_test[level], runs, levels[level]), 1e-9);
    }
  }
  // The exact test must not be conservative either.
  EXPECT_GT(binomial_lower_tail(alarms[2][0], runs, levels[0]), 1e-9);
}

// E has mean exactly 1 under the null hypothesis. The test integrates the mean of E for two values
// at lag 1, the first of which is given: S = z1 z2, V = z1^2, a = 1/64. It uses the midpoint rule
// over z2 in steps of 1/64 (the rule's error for an analytic integrand is exp(-2 pi^2 64^2 s^2),
// where s >= 1 is the integrand's width). Beyond |z2| = 80 the integrand is below exp(-80^2 / 2 *
// a / (a + V)) = exp(-49) at z1 = 1.
TEST(Dependence, TheEvalueOfLagCorrelationHasMeanOne) {
  const boost::math::normal_distribution<double> normal;
  const double prior = 1.0 / 64;
  for (const double z1 : {0.01, 0.1, 1.0}) {
    const double spread = prior + z1 * z1;
    const auto e = [&](double z2) {
      return std::sqrt(prior / spread) * std::exp(z1 * z1 * z2 * z2 / (2 * spread));
    };
    double mean = 0;
    for (int step = -80 * 64; step < 80 * 64; ++step) {
      const double z2 = (step + 0.5) / 64;
      // The product of E and the normal density is computed with one exponent, because each factor
      // alone would overflow or underflow.
      const double exponent = z1 * z1 * z2 * z2 / (2 * spread) - z2 * z2 / 2;
      mean += std::sqrt(prior / spread) * std::exp(exponent) / std::sqrt(2 * std::numbers::pi) / 64;
    }
    EXPECT_LE(std::abs(mean - 1), kRounding);
    for (const double z2 : {-3.0, 0.5, 5.0}) {
      const double values[] = {cdf(normal, z1), cdf(normal, z2)};
      EXPECT_LE(std::abs(lag_correlation_p_value(values, 1) - std::min(1.0, 1 / e(z2))), kRounding);
    }
  }
}

TEST(Dependence, CorrelationIsFound) {
  // For rho = 0.1 a z test of normal scores needs 1.0e4 draws (7.13 + 4.75 sigma). The exponent of
  // the e-value is smaller by 1/65 and by 2.1 nats of 27.6 + 2.1, so that 1.1e4 draws are needed.
  // The probability of agreement changes from 1/2 by asin(0.1) / pi = 0.0319.
  const std::size_t lag = 3;
  const std::vector<double> wrong = stream(15000, 0.1, lag, 8);
  EXPECT_LE(lag_correlation_p_value(wrong, lag), 1e-12);
  EXPECT_GT(lag_correlation_p_value(wrong, 1), 1e-12);
  const std::uint64_t draws =
      binomial_min_num_samples(std::asin(0.1) / std::numbers::pi, 0.5, 1e-12, 1e-6);
  EXPECT_LE(lag_agreement_p_value(stream(draws + lag, 0.1, lag, 9), lag), 1e-12);
  EXPECT_GT(lag_agreement_p_value(stream(draws + lag, 0.0, lag, 10), lag), 1e-12);
  EXPECT_LE(lag_agreement_p_value(stream(draws + lag, -0.1, lag, 11), lag), 1e-12);
}

TEST(Dependence, SharedNoiseIsFoundInSixtyFourDraws) {
  const std::vector<double> row = stream(64, 0, 1, 12), other = stream(64, 0, 1, 13);
  EXPECT_LE(pair_agreement_p_value(row, row), 1e-12);
  EXPECT_LE(pair_correlation_p_value(row, row), 1e-12);
  EXPECT_GT(pair_agreement_p_value(row, other), 1e-12);
  EXPECT_GT(pair_correlation_p_value(row, other), 1e-12);
  // If the offset never advances, every step has the same value.
  const std::vector<double> frozen(64, 0.3);
  EXPECT_LE(lag_agreement_p_value(frozen, 1), 1e-12);
  EXPECT_LE(uniformity_p_value(frozen), 1e-12);
}

// The value u' is twice the distance of u from 1/2: it has no correlation with u, but is a function
// of u.
TEST(Dependence, DependenceWithoutCorrelationIsFoundByPairs) {
  std::mt19937_64 generator(14);
  std::vector<double> values(60000);
  for (std::size_t i = 0; i < values.size(); i += 2) {
    values[i] = uniform(generator);
    values[i + 1] = std::abs(2 * values[i] - 1);
  }
  const std::vector<double> distribution(256, 1.0 / 256);
  EXPECT_LE(goodness_of_fit(pair_counts(values, 1, 16), distribution).g_p_bound, 1e-12);
  const std::vector<double> fair = stream(60000, 0, 1, 15);
  for (const std::size_t lag : {1U, 4U}) {
    const std::vector<std::uint64_t> counts = pair_counts(fair, lag, 16);
    EXPECT_GT(goodness_of_fit(counts, distribution).g_p_bound, 1e-12);
    std::uint64_t pairs = 0;
    for (const std::uint64_t count : counts) pairs += count;
    EXPECT_EQ(pairs, 30000U);
  }
}

TEST(Pit, PairCountsPutValuesWhereTheyBelong) {
  const std::vector<double> values = {0.0, 0.1, 0.6, 1.0, 0.3};  // lag 2: (0, 0.6), (0.1, 1)
  EXPECT_EQ(pair_counts(values, 2, 2), (std::vector<std::uint64_t>{0, 2, 0, 0}));
  EXPECT_EQ(pair_counts(values, 1, 2), (std::vector<std::uint64_t>{1, 0, 0, 1}));
  EXPECT_EQ(pair_counts(values, values, 2)[1], 0U);  // with itself: only the diagonal
  EXPECT_THROW(pair_counts(values, std::vector<double>{0.5}, 2), std::invalid_argument);
}

}  // namespace
}  // namespace fairdraw::statistics
