// The tests require that the expectation of the fuzzer's e-value under the distribution is exactly
// 1, and that discrepancies make the e-value grow.
#include "suites/gate/fuzz/evidence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "harness/run/calls/random_words.h"

namespace fairdraw::suites::fuzz {
namespace {

using Counts = std::vector<std::uint64_t>;

// Calls `visit` with every possible vector of counts that `draws` draws can give.
void for_all_counts(std::uint64_t draws, std::size_t cells,
                    const std::function<void(const Counts&)>& visit) {
  Counts counts(cells, 0);
  const std::function<void(std::size_t, std::uint64_t)> go = [&](std::size_t cell,
                                                                 std::uint64_t left) {
    if (cell + 1 == cells) {
      counts[cell] = left;
      visit(counts);
      return;
    }
    for (std::uint64_t count = 0; count <= left; ++count) {
      counts[cell] = count;
      go(cell + 1, left - count);
    }
  };
  go(0, draws);
}

// Returns the expectation of the e-value under `truth`, over all outcomes of the multinomial
// distribution.
double expectation(const DistributionCells& distribution, const std::vector<double>& truth,
                   std::uint64_t draws) {
  double sum = 0;
  for_all_counts(draws, truth.size(), [&](const Counts& counts) {
    double log_probability = std::lgamma(static_cast<double>(draws) + 1);
    for (std::size_t cell = 0; cell < counts.size(); ++cell) {
      const auto x = static_cast<double>(counts[cell]);
      log_probability += x * std::log(truth[cell]) - std::lgamma(x + 1);
    }
    sum += std::exp(log_probability + log_evidence(distribution, counts));
  });
  return sum;
}

// The rounding error of a few hundred outcomes, with about 12 log-gamma values each, is far below
// 1e-9.
constexpr double kRounding = 1e-9;

TEST(Evidence, HasExpectationOneUnderTheDistribution) {
  const std::vector<std::vector<double>> distributions = {
      {0.5, 0.5}, {0.9, 0.1}, {0.999, 0.001}, {0.2, 0.3, 0.5}, {0.7, 0.1, 0.1, 0.1}};
  for (const std::vector<double>& distribution : distributions) {
    for (const std::uint64_t draws : {1U, 2U, 7U, 12U}) {
      EXPECT_NEAR(expectation({distribution, 0}, distribution, draws), 1, kRounding) << draws;
    }
  }
}

TEST(Evidence, HasExpectationAtMostOneWithinTheSlack) {
  const std::vector<double> distribution = {0.25, 0.25, 0.5};
  for (const double slack : {0.01, 0.1}) {
    const std::vector<double> truth = {0.25 + slack, 0.25 - slack, 0.5};
    EXPECT_LE(expectation({distribution, slack}, truth, 10), 1 + kRounding);
    const std::vector<double> other = {0.25 - slack, 0.25, 0.5 + slack};
    EXPECT_LE(expectation({distribution, slack}, other, 10), 1 + kRounding);
  }
}

TEST(Evidence, NothingDrawnSaysNothing) {
  const std::vector<double> distribution = {0.5, 0.5};
  EXPECT_EQ(log_evidence({distribution, 0}, Counts{0, 0}), 0);
}

TEST(Evidence, ATokenOfProbabilityZeroIsProof) {
  const std::vector<double> distribution = {1, 0};
  EXPECT_EQ(log_evidence({distribution, 0}, Counts{1000, 1}), INFINITY);
  EXPECT_LE(log_evidence({distribution, 0}, Counts{1000, 0}), kRounding);
}

// Returns counts of draws from `truth`, which are made by inversion.
Counts drawn(const std::vector<double>& truth, std::uint64_t draws, std::uint64_t seed) {
  Counts counts(truth.size(), 0);
  for (std::uint64_t i = 0; i < draws; ++i) {
    double left = static_cast<double>(harness::mixed(seed, i) >> 11) * 0x1p-53;
    std::size_t cell = 0;
    while (cell + 1 < truth.size() && left >= truth[cell]) left -= truth[cell++];
    ++counts[cell];
  }
  return counts;
}

// For a known alternative, ln E is n KL on average. The mixtures of bets lose ln 3 for the stakes,
// ln 62 for the group among the other groups, ln 4 for the values of kappa, and (ln n) / 2 for the
// one free parameter. Twice the number of draws for which n KL = 13.8 + 15 is more than enough.
TEST(Evidence, FindsALostLane) {
  const std::size_t vocab = 64;
  const std::vector<double> distribution(vocab, 1.0 / 64);
  std::vector<double> truth(vocab, 1.0 / 60);
  for (std::size_t id = 11; id < vocab; id += 16) truth[id] = 0;
  const double divergence = std::log(64.0 / 60);  // KL divergence of the truth from the
                                                  // distribution
  const auto draws = static_cast<std::uint64_t>(2 * (13.8 + 15) / divergence);
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    EXPECT_GT(log_evidence({distribution, 0}, drawn(truth, draws, seed)), 13.8);
    // A correct sampler reaches E >= 1e6 with a probability of 1e-6.
    EXPECT_LT(log_evidence({distribution, 0}, drawn(distribution, draws, seed)), 13.8);
  }
}

TEST(Evidence, FindsAWarmerHead) {
  const std::vector<double> distribution = {0.75, 0.25}, truth = {0.74, 0.26};
  const double divergence = 0.74 * std::log(0.74 / 0.75) + 0.26 * std::log(0.26 / 0.25);
  const auto draws = static_cast<std::uint64_t>(2 * (13.8 + 15) / divergence);
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    EXPECT_GT(log_evidence({distribution, 0}, drawn(truth, draws, seed)), 13.8);
    EXPECT_LT(log_evidence({distribution, 0}, drawn(distribution, draws, seed)), 13.8);
  }
}

}  // namespace
}  // namespace fairdraw::suites::fuzz
