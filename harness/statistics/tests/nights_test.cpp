// Tests evidence over nightly runs: mean 1 under the null hypothesis, Ville's bound over the whole
// sequence, and faults that no single run finds.
#include "harness/statistics/nights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "harness/statistics/statistics.h"
#include "harness/statistics/tests/outcomes.h"

namespace fairdraw::statistics {
namespace {

const double kLn20 = std::log(20.0);
// The probability that a right test fails, over all its seeds; the seeds are fixed.
constexpr double kNever = 1e-9;

CellsOfNights cells(std::vector<double> probability) {
  CellsOfNights nights;
  nights.probability = std::move(probability);
  return nights;
}

TEST(Nights, CalibratedPValuesHaveMeanOne) {
  // The integral of the mean of kappa p^(kappa - 1) over kappa, from 0 to p, is (p - 1) / ln p; it
  // is 1 at p = 1.
  const auto integral = [](double p) { return p < 1 ? (p - 1) / std::log(p) : 1; };
  for (double a = 0x1p-60; a < 1; a *= 2) {
    // The check uses Simpson's rule with 256 intervals. The error of Simpson's rule is below h^4 /
    // 180 times the fourth derivative, which is at most 24 e(a) / a^4 here; for h = a / 256 that is
    // 2^-34 of the integral.
    constexpr int kIntervals = 256;
    double sum = 0;
    for (int i = 0; i <= kIntervals; ++i) {
      const double weight = i == 0 || i == kIntervals ? 1 : i % 2 == 1 ? 4 : 2;
      sum += weight * std::exp(p_to_log_e(a + a * i / kIntervals));
    }
    const double quadrature = sum * a / kIntervals / 3;
    const double exact = integral(2 * a) - integral(a);
    EXPECT_LE(std::abs(quadrature - exact), exact * 0x1p-32 + 0x1p-50) << a;
  }
  EXPECT_EQ(p_to_log_e(1), std::log(0.5));
  EXPECT_EQ(p_to_log_e(0), p_to_log_e(1e-300));
  EXPECT_GT(p_to_log_e(1e-300), 670);  // 690.8 - 2 ln 690.8 = 677.7
  EXPECT_THROW(p_to_log_e(1.5), std::invalid_argument);
}

// Over every outcome of three nightly runs, the mean of M_T is 1, whatever the counts of earlier
// runs are.
TEST(Nights, CountsHaveMeanOne) {
  const std::vector<double> probability = {0.2, 0.3, 0.5};
  double mean = 0;
  for_each_outcome(probability, 2, [&](auto first, double p) {
    for_each_outcome(probability, 3, [&](auto second, double q) {
      for_each_outcome(probability, 4, [&](auto third, double r) {
        CellsOfNights nights = cells(probability);
        for (const auto& night : {first, second, third}) {
          nights.counts.emplace_back(night.begin(), night.end());
        }
        mean += p * q * r * std::exp(log_e_of_nights(nights, 1e-6));
      });
    });
  });
  EXPECT_LE(std::abs(mean - 1), kRounding);
}

// The test measures the false alarm rate of a whole sequence of nightly runs, evaluated after each
// run: at most 1/20 of all sequences may ever reach 20. A rule that multiplied e-values and reset
// them, or tested each run anew at 1/20, would fail in 95 % of the sequences.
TEST(Nights, NullSequencesKeepToVillesBound) {
  constexpr std::uint64_t kSequences = 600;
  constexpr int kNights = 40;
  const std::vector<double> probability = zipf_distribution(8);
  std::mt19937_64 generator(20261124);
  std::uint64_t by_counts = 0, by_p_values = 0, each_night = 0;
  for (std::uint64_t sequence = 0; sequence < kSequences; ++sequence) {
    CellsOfNights nights = cells(probability);
    std::vector<double> log_e;
    double max_of_counts = 0, max_of_p_values = 0;
    bool any_night = false;
    for (int night = 0; night < kNights; ++night) {
      nights.counts.push_back(draw_counts(probability, 200, generator));
      max_of_counts = std::max(max_of_counts, log_e_of_nights(nights, 1e-6));
      const double p_value = 1 - uniform(generator);
      log_e.push_back(p_to_log_e(p_value));
      max_of_p_values = std::max(max_of_p_values, log_e_of_nights(log_e));
      any_night = any_night || p_value <= 0.05;
    }
    if (max_of_counts >= kLn20) ++by_counts;
    if (max_of_p_values >= kLn20) ++by_p_values;
    if (any_night) ++each_night;
  }
  EXPECT_GT(binomial_upper_tail(by_counts, kSequences, 0.05), kNever) << by_counts;
  EXPECT_GT(binomial_upper_tail(by_p_values, kSequences, 0.05), kNever) << by_p_values;
  EXPECT_GT(each_night, kSequences / 2);  // 1 - 0.95^40 = 0.87 of all; Ville's bound prevents this
}

// A bias that is a fifth of the smallest one found by a single nightly run is found by the counts
// of 150 runs, but not by a product of e-values that each start afresh.
TEST(Nights, CountsFindWhatNoNightFinds) {
  const std::vector<double> probability(10, 0.1);
  std::vector<double> biased;
  for (int i = 0; i < 10; ++i) biased.push_back(i % 2 == 0 ? 0.104 : 0.096);  // total variation .02
  const double needed = std::log(1e12);
  std::mt19937_64 generator(7);
  CellsOfNights nights = cells(probability);
  std::vector<double> fresh;
  double in_a_night = 0;
  int found = 0;
  for (int night = 1; night <= 150 && found == 0; ++night) {
    const auto counts = draw_counts(biased, 3000, generator);
    nights.counts.push_back(counts);
    DirichletMixture alone(probability);
    alone.add(counts);
    in_a_night = std::max(in_a_night, alone.log_e());
    fresh.push_back(alone.log_e());
    if (log_e_of_nights(nights, 1e-13) >= needed) found = night;
  }
  ASSERT_GT(found, 0);
  EXPECT_LT(in_a_night, needed / 2);
  EXPECT_LT(log_e_of_nights(fresh), needed / 2);
  // The design, which holds with probability 1 - 1e-6, promised at most that many runs.
  CellsOfNights designed = cells(probability);
  designed.counts.assign(150, std::vector<std::uint64_t>(10, 300));
  EXPECT_LE(nights_min_discrepancy(designed, 1e-13, needed, 1e-6), 0.02);
  designed.counts.resize(1);
  EXPECT_GT(nights_min_discrepancy(designed, 1e-13, needed, 1e-6), 0.1);
}

// The bet that starts at run 61 finds a fault that begins in this run, because this bet has lost
// nothing on the earlier runs.
TEST(Nights, AFaultThatComesLaterIsFound) {
  std::mt19937_64 generator(11);
  std::vector<double> log_e;
  for (int night = 0; night < 60; ++night) log_e.push_back(p_to_log_e(1 - uniform(generator)));
  EXPECT_LT(std::accumulate(log_e.begin(), log_e.end(), 0.0), -10);
  log_e.push_back(p_to_log_e(1e-9));
  log_e.push_back(p_to_log_e(1e-9));
  // Each faulty run multiplies the bet by e^20.7 / 20.7^2 = 2.3e6, and the bet has the weight 1 /
  // (61 * 62).
  EXPECT_GT(log_e_of_nights(log_e), 2 * 14.6 - std::log(61.0 * 62));
}

// A sampler that is right within its rounding gains nothing from the bets.
TEST(Nights, RoundingIsPaidFor) {
  CellsOfNights nights = cells({0.5, 0.5});
  nights.relative_error = 1e-3;
  nights.chi_squared_error = 1e-6;
  for (int night = 0; night < 20; ++night) {
    nights.counts.push_back({50'050'000, 49'950'000});  // factors 1 + 1e-3 and 1 - 1e-3, exactly
  }
  EXPECT_LT(log_e_of_nights(nights, 1e-13), std::log(1e12));
  nights.relative_error = nights.chi_squared_error = 0;
  EXPECT_GT(log_e_of_nights(nights, 1e-13),
            500);  // 2e9 draws give 2e9 * 2 * (5e-4)^2 = 1000 nats, less the price
}

}  // namespace
}  // namespace fairdraw::statistics
