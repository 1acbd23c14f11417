// Tests that wrong distributions are found with the draws that the design states for their
// discrepancy, at the error rates of a gate, and that the right distribution passes with the same
// draws.
//
// All tests of this file use fixed seeds. A wrong distribution passes a test with a rate of at most
// 1e-6.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/statistics/statistics.h"
#include "harness/statistics/tests/outcomes.h"

namespace fairdraw::statistics {
namespace {

constexpr double kFail = 1e-12, kPass = 1e-6;
constexpr std::size_t kVocab = 1024;

struct WrongDistribution {
  const char* name;
  std::vector<double> distribution;
};

// Returns variants of the distribution Zipf(1), each of which has one fault.
std::vector<WrongDistribution> faults() {
  const std::vector<double> target = zipf_distribution(kVocab);
  std::vector<WrongDistribution> all;

  std::vector<double> scaled = target;  // makes the largest token 0.9 times as likely
  scaled[0] *= 0.9;
  all.push_back({"scaled by 0.9", normalized(scaled)});

  std::vector<double> lost = target;  // nothing beyond rank 512
  std::fill(lost.begin() + 512, lost.end(), 0.0);
  all.push_back({"lost tail", normalized(lost)});

  std::vector<double> swapped = target;  // swaps the second token and the ninth token
  std::swap(swapped[1], swapped[8]);
  all.push_back({"swapped tokens", swapped});

  std::vector<double> warmer(kVocab);  // temperature 1.05
  for (std::size_t i = 0; i < kVocab; ++i) warmer[i] = std::pow(target[i], 1 / 1.05);
  all.push_back({"temperature 1.05", normalized(warmer)});
  return all;
}

// Returns the distribution over the cells of a pooling.
std::vector<double> pooled_distribution(const Pooling& pooling,
                                        const std::vector<double>& distribution) {
  std::vector<double> cells(pooling.probability.size(), 0.0);
  for (std::size_t i = 0; i < distribution.size(); ++i)
    cells[pooling.cell_of[i]] += distribution[i];
  return cells;
}

double largest_cdf_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += a[i] - b[i];
    largest = std::max(largest, std::abs(difference));
  }
  return largest;
}

TEST(MustReject, ByG) {
  const std::vector<double> target = zipf_distribution(kVocab);
  std::mt19937_64 generator(1);
  for (const WrongDistribution& fault : faults()) {
    SCOPED_TRACE(fault.name);
    const Pooling pooling = pool_by_probability(target, 1000000, 400, 32);
    const auto cells = static_cast<std::uint32_t>(pooling.probability.size());
    const double distance =
        total_variation(pooled_distribution(pooling, fault.distribution), pooling.probability);
    const std::uint64_t draws = g_min_num_samples(distance, cells, kFail, kPass);
    const auto p_bound = [&](const std::vector<double>& distribution) {
      const auto counts = draw_counts(distribution, draws, generator);
      return goodness_of_fit(pool_counts(pooling, counts).counts, pooling.probability).g_p_bound;
    };
    EXPECT_LE(p_bound(fault.distribution), kFail);
    EXPECT_GT(p_bound(target), kFail);
  }
}

TEST(MustReject, ByChiSquared) {
  const std::vector<double> target = zipf_distribution(kVocab);
  std::mt19937_64 generator(2);
  for (const WrongDistribution& fault : faults()) {
    SCOPED_TRACE(fault.name);
    const Pooling pooling = pool_by_probability(target, 100000, 400, 32);
    const double dof = static_cast<double>(pooling.probability.size()) - 1;
    const double distance =
        total_variation(pooled_distribution(pooling, fault.distribution), pooling.probability);
    // The number of draws is at least the one that gives an expected count of 400 per cell, because
    // the p-value is invalid below that.
    const std::uint64_t draws =
        std::max<std::uint64_t>(100000, chi_squared_min_num_samples(distance, dof, kFail, kPass));
    const auto p_value = [&](const std::vector<double>& distribution) {
      const auto counts = draw_counts(distribution, draws, generator);
      return goodness_of_fit(pool_counts(pooling, counts).counts, pooling.probability)
          .chi_squared_p_value;
    };
    EXPECT_LE(p_value(fault.distribution), kFail);
    EXPECT_GT(p_value(target), kFail);
  }
}

TEST(MustReject, ByDkwm) {
  const std::vector<double> target = zipf_distribution(kVocab);
  std::mt19937_64 generator(3);
  for (const WrongDistribution& fault : faults()) {
    SCOPED_TRACE(fault.name);
    const double distance = largest_cdf_distance(fault.distribution, target);
    const std::uint64_t draws = dkwm_min_num_samples(distance, kFail, kPass);
    const auto p_value = [&](const std::vector<double>& distribution) {
      return dkwm_p_value(cdf_distance(draw_counts(distribution, draws, generator), target), draws);
    };
    EXPECT_LE(p_value(fault.distribution), kFail);
    EXPECT_GT(p_value(target), kFail);
  }
}

// The test uses one bucket per fault: the scaled token, the tail, the swapped token, the upper half
// of the ranks.
TEST(MustReject, ByBinomial) {
  const std::vector<double> target = zipf_distribution(kVocab);
  const std::vector<std::pair<std::size_t, std::size_t>> buckets = {
      {0, 1}, {512, kVocab}, {1, 2}, {32, kVocab}};
  const std::vector<WrongDistribution> all = faults();
  std::mt19937_64 generator(4);
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(all[i].name);
    const auto mass = [&](const auto& values) {
      double sum = 0;
      for (std::size_t t = buckets[i].first; t < buckets[i].second; ++t) {
        sum += static_cast<double>(values[t]);
      }
      return sum;
    };
    const double p = mass(target);
    const double distance = std::abs(mass(all[i].distribution) - p);
    const std::uint64_t draws = binomial_min_num_samples(distance, p, kFail, kPass);
    const auto p_value = [&](const std::vector<double>& distribution) {
      const auto counts = draw_counts(distribution, draws, generator);
      return binomial_p_value(static_cast<std::uint64_t>(mass(counts)), draws, p);
    };
    EXPECT_LE(p_value(all[i].distribution), kFail);
    EXPECT_GT(p_value(target), kFail);
  }
}

TEST(MustReject, TotalVariationIntervalExcludesZero) {
  const std::vector<double> target = zipf_distribution(kVocab);
  std::mt19937_64 generator(5);
  const std::uint64_t draws = 1000000;
  for (const WrongDistribution& fault : faults()) {
    SCOPED_TRACE(fault.name);
    const Pooling pooling = pool_by_probability(target, draws, 400, 32);
    const auto cells = static_cast<std::uint32_t>(pooling.probability.size());
    const auto interval = [&](const std::vector<double>& distribution) {
      const auto counts = pool_counts(pooling, draw_counts(distribution, draws, generator)).counts;
      const GoodnessOfFit fit = goodness_of_fit(counts, pooling.probability);
      return total_variation_interval(fit.total_variation, cells, draws, kFail);
    };
    const double distance =
        total_variation(pooled_distribution(pooling, fault.distribution), pooling.probability);
    const Interval wrong = interval(fault.distribution);
    EXPECT_GT(wrong.lower, 0);
    EXPECT_LE(wrong.lower, distance);
    EXPECT_GE(wrong.upper, distance);
    EXPECT_EQ(interval(target).lower, 0);
  }
}

// Stratified draws give every cell exactly its expected count, which fits too well to be true.
TEST(MustReject, TooGood) {
  const std::vector<double> target(64, 1.0 / 64);
  const std::vector<std::uint64_t> stratified(64, 1000);
  EXPECT_LE(goodness_of_fit(stratified, target).chi_squared_too_good, kFail);
  std::mt19937_64 generator(6);
  const auto fair = draw_counts(target, 64000, generator);
  EXPECT_GT(goodness_of_fit(fair, target).chi_squared_too_good, kFail);
}

// A small bias that many cases have is too small to be found in one case, but is found in all cases
// together.
TEST(MustReject, ASmallBiasEverywhereIsFoundByFisher) {
  const std::vector<double> p_values(500, 0.05);
  EXPECT_EQ(bonferroni_p_value(p_values), 1);
  EXPECT_LE(fisher_p_value(p_values), kFail);
  EXPECT_LE(global_p_value(p_values), kFail);
}

// A support of 6 cells with 200 draws is the largest whose outcomes are all listed.
TEST(MustReject, ByExactMultinomial) {
  const std::vector<double> target = {0.3, 0.25, 0.2, 0.1, 0.1, 0.05};
  const std::vector<double> actual = {0.05, 0.1, 0.1, 0.2, 0.25, 0.3};
  std::mt19937_64 generator(7);
  EXPECT_LE(exact_multinomial_p_value(draw_counts(actual, 200, generator), target), kFail);
  EXPECT_GT(exact_multinomial_p_value(draw_counts(target, 200, generator), target), kFail);
}

}  // namespace
}  // namespace fairdraw::statistics
