// Tests of bets: E has mean 1 at every number of draws, its maximum obeys Ville's bound, and wrong
// distributions are found with the number of draws that the designs state.
//
// These tests do not cover errors in ln E that only appear after more than 2^20 draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "harness/statistics/argument.h"
#include "harness/statistics/statistics.h"
#include "harness/statistics/tests/outcomes.h"

namespace fairdraw::statistics {
namespace {

const std::vector<std::vector<double>> kBetDistributions = {
    {0.5, 0.5}, {0.01, 0.99}, {0.25, 0.25, 0.5}, {0.98, 0.01, 0.01}, {0.125, 0.125, 0.25, 0.5}};

TEST(Betting, RisingFactorialIsItsProduct) {
  for (const double x : {0.003, 0.7, 3.0, 15.9, 16.0, 100.5, 1e5, 1e12}) {
    double product = 0;
    for (int m = 0; m <= 300; ++m) {
      // The bound allows for 300 logarithms and sums of terms of one sign, each right to 2^-52; two
      // values of lgamma below 316 ln 316 < 2^11, each right to a few ulp; and the last term of the
      // series.
      const double slack = product * 300 * 0x1p-52 + 0x1p-38 + 0x1p-46;
      ASSERT_LE(std::abs(log_rising_factorial(x, m) - product), slack) << x << " " << m;
      product += std::log(x + m);
    }
  }
}

// Returns the mean of E over every outcome.
template <class LogE>
double mean_e(std::span<const double> distribution, std::uint64_t draws, const LogE& log_e) {
  double mean = 0;
  for_each_outcome(distribution, draws,
                   [&](std::span<const std::uint64_t> counts, double probability) {
                     mean += probability * std::exp(log_e(counts));
                   });
  return mean;
}

TEST(Betting, DirichletMixtureHasMeanOne) {
  for (const auto& distribution : kBetDistributions) {
    for (const std::uint64_t draws : {1U, 2U, 5U, 20U}) {
      const double mean = mean_e(distribution, draws, [&](auto counts) {
        DirichletMixture mixture(distribution);
        mixture.add(counts);
        return mixture.log_e();
      });
      EXPECT_LE(std::abs(mean - 1), kRounding) << distribution.size() << " " << draws;
    }
  }
}

std::vector<TokenSets> some_sets(std::size_t vocab) {
  std::vector<std::uint32_t> each(vocab), last(vocab, kNoCell);
  std::iota(each.begin(), each.end(), 0U);
  last.back() = 0;
  return {{"each", each, 1}, {"last", last, 0.25}};
}

TEST(Betting, PortfolioHasMeanOne) {
  for (const auto& distribution : kBetDistributions) {
    for (const std::uint64_t draws : {1U, 2U, 5U, 20U}) {
      for (const auto& sets : {some_sets(distribution.size()), directed_sets(distribution)}) {
        const double mean = mean_e(distribution, draws, [&](auto counts) {
          BetPortfolio portfolio(distribution, sets);
          portfolio.add(counts);
          return portfolio.log_e();
        });
        EXPECT_LE(std::abs(mean - 1), kRounding) << distribution.size() << " " << draws;
      }
    }
  }
}

// Under another distribution the mean of E is far from 1, which shows that the tests above can
// fail.
TEST(Betting, MeanOfEIsNotOneUnderAnotherDistribution) {
  const std::vector<double> target = {0.25, 0.25, 0.5}, truth = {0.3, 0.25, 0.45};
  const double mean = mean_e(truth, 20, [&](auto counts) {
    BetPortfolio portfolio(target, some_sets(3));
    portfolio.add(counts);
    return portfolio.log_e();
  });
  EXPECT_GT(mean, 1 + 1000 * kRounding);
}

TEST(Betting, BatchesAddUp) {
  const std::vector<double> distribution = {0.2, 0.3, 0.5};
  DirichletMixture once(distribution), twice(distribution);
  BetPortfolio sets_once(distribution, some_sets(3)), sets_twice(distribution, some_sets(3));
  const std::vector<std::uint64_t> first = {90, 5, 5}, second = {1, 89, 160}, both = {91, 94, 165};
  once.add(both);
  sets_once.add(both);
  for (const auto& counts : {first, second}) {
    twice.add(counts);
    sets_twice.add(counts);
  }
  EXPECT_EQ(once.log_e(), twice.log_e());
  EXPECT_EQ(sets_once.log_e(), sets_twice.log_e());
  EXPECT_EQ(twice.draws(), 350U);
  // The evidence was larger after the first batch of draws, and the maximum keeps that value.
  EXPECT_GT(twice.max_log_e(), twice.log_e());
  EXPECT_GT(sets_twice.max_log_e(), sets_twice.log_e());
}

// Ville's inequality says P(max E >= 100) <= 0.01 over 30 looks; the test applies the exact
// binomial distribution to the number of runs in which this happens. A p-value that is compared
// with 0.01 at the same looks exceeds that bound.
TEST(Betting, LookingOftenCostsNothing) {
  const std::vector<double> distribution = {0.4, 0.3, 0.2, 0.06, 0.04};
  constexpr std::uint64_t kRuns = 3000;
  constexpr double kLevel = 1e-9;
  std::mt19937_64 generator(31);
  std::uint64_t by_cells = 0, by_sets = 0, by_p_value = 0;
  for (std::uint64_t run = 0; run < kRuns; ++run) {
    DirichletMixture mixture(distribution);
    BetPortfolio portfolio(distribution, some_sets(distribution.size()));
    std::vector<std::uint64_t> total(distribution.size(), 0);
    bool p_value_was_small = false;
    for (int look = 0; look < 30; ++look) {
      const auto counts = draw_counts(distribution, 20, generator);
      mixture.add(counts);
      portfolio.add(counts);
      for (std::size_t i = 0; i < distribution.size(); ++i) total[i] += counts[i];
      const double p = binomial_p_value(total[0], std::accumulate(total.begin(), total.end(), 0ULL),
                                        distribution[0]);
      p_value_was_small = p_value_was_small || p <= 0.01;
    }
    by_cells += mixture.max_log_e() >= std::log(100.0) ? 1U : 0U;
    by_sets += portfolio.max_log_e() >= std::log(100.0) ? 1U : 0U;
    by_p_value += p_value_was_small ? 1U : 0U;
  }
  EXPECT_GT(binomial_upper_tail(by_cells, kRuns, 0.01), kLevel) << by_cells;
  EXPECT_GT(binomial_upper_tail(by_sets, kRuns, 0.01), kLevel) << by_sets;
  EXPECT_LT(binomial_upper_tail(by_p_value, kRuns, 0.01), kLevel) << by_p_value;
}

// The cells of the target are equal; in the sampler every second cell is too heavy, at a total
// variation distance of 0.02. The fixed test by chi-squared needs lambda* / (4 TV^2) draws at 1e-12
// and 1e-6: 1.08e5 for 10 cells and 1.79e5 for 100 cells. Bets stop as soon as E is large enough:
// half of the runs use less than 0.7 of these draws, and all but one in some hundred use less than
// 1.05 of them (the ratios were measured for a test at 1e-12 and 1e-3, which needs fewer draws).
TEST(Betting, DirichletMixtureStopsEarly) {
  std::mt19937_64 generator(32);
  for (const std::size_t cells : {10U, 100U}) {
    const std::vector<double> distribution(cells, 1.0 / static_cast<double>(cells));
    std::vector<double> wrong = distribution;
    for (std::size_t i = 0; i < cells; ++i) wrong[i] *= i % 2 == 0 ? 1.04 : 0.96;
    ASSERT_LE(std::abs(total_variation(distribution, wrong) - 0.02), kRounding);
    const std::uint64_t fixed =
        chi_squared_min_num_samples(0.02, static_cast<double>(cells) - 1, 1e-12, 1e-6);
    std::vector<std::uint64_t> needed;
    for (int run = 0; run < 21; ++run) {
      DirichletMixture mixture(distribution);
      while (mixture.log_e() < -std::log(1e-12) && mixture.draws() < 2 * fixed) {
        mixture.add(draw_counts(wrong, 2000, generator));
      }
      needed.push_back(mixture.draws());
    }
    std::sort(needed.begin(), needed.end());
    const std::uint64_t median = needed[needed.size() / 2];
    RecordProperty(std::to_string(cells) + "_median", static_cast<int>(median));
    RecordProperty(std::to_string(cells) + "_most", static_cast<int>(needed.back()));
    EXPECT_LE(static_cast<double>(median), 0.7 * static_cast<double>(fixed));
    EXPECT_LE(static_cast<double>(needed.back()), 1.05 * static_cast<double>(fixed));
  }
}

// The test checks the design's promise at rates at which misses occur, for every distribution at
// the stated distance, in the directions of cells against cells.
TEST(Betting, DirichletMissesNoMoreThanItSays) {
  const std::vector<double> target = {0.3, 0.3, 0.4};
  const std::uint64_t draws = 400;
  for (const double fail : {0.1, 1e-3}) {
    for (const double pass : {0.1, 1e-3}) {
      const double shift = dirichlet_min_discrepancy(draws, target, -std::log(fail), pass);
      ASSERT_LT(shift, 0.3);
      const std::vector<std::vector<double>> distributions = {
          {0.3 - shift, 0.3, 0.4 + shift},
          {0.3 - shift, 0.3 + shift, 0.4},
          {0.3 + shift / 2, 0.3 + shift / 2, 0.4 - shift}};
      for (const std::vector<double>& actual : distributions) {
        double missed = 0;
        for_each_outcome(actual, draws, [&](std::span<const std::uint64_t> counts, double mass) {
          DirichletMixture mixture(target);
          mixture.add(counts);
          if (mixture.log_e() < -std::log(fail)) missed += mass;
        });
        EXPECT_LE(missed, pass) << fail << " " << pass;
      }
    }
  }
}

TEST(Betting, MoreDrawsFindLess) {
  const std::vector<double> distribution(64, 1.0 / 64);
  double before = 1;
  for (const std::uint64_t draws : {100'000U, 1'000'000U, 10'000'000U, 100'000'000U}) {
    const double found = dirichlet_min_discrepancy(draws, distribution, 29, 1e-6);
    EXPECT_LT(found, before / 2);  // sqrt(10) > 2: the rate of the root, except for a logarithm
    before = found;
  }
}

// The sampler never draws one of 1024 lanes, with Zipf(1) over 131072 tokens. The lane has 4.3e-4
// of the mass, and E is certain to be large enough, because no draw falls into the lane.
TEST(Betting, PortfolioFindsALostLane) {
  const std::vector<double> target = zipf_distribution(131072);
  std::vector<double> wrong = target;
  for (std::size_t token = 1023; token < wrong.size(); token += 1024) wrong[token] = 0;
  wrong = normalized(wrong);
  BetPortfolio portfolio(target, directed_sets(target));
  ASSERT_GT(portfolio.bets(), 1000U);
  std::mt19937_64 generator(33);
  portfolio.add(draw_counts(wrong, 100'000, generator));
  EXPECT_GE(portfolio.log_e(), -std::log(1e-12));
  const BetPortfolio::Strongest strongest = portfolio.strongest();
  EXPECT_EQ(strongest.name, "lane of 1024, number 1023");
  EXPECT_EQ(strongest.count, 0U);
  EXPECT_GE(portfolio.log_e(), strongest.log_e);

  BetPortfolio fair(target, directed_sets(target));
  fair.add(draw_counts(target, 100'000, generator));
  EXPECT_LT(fair.log_e(), std::log(1e9));  // a bound that is exceeded with a rate of 1e-9
}

TEST(Betting, LossesFoundAreFound) {
  const std::vector<double> distribution = {0.5, 0.3, 0.15, 0.05};
  const BetPortfolio portfolio(distribution, some_sets(4));
  ASSERT_EQ(portfolio.bets(), 5U);
  const double needed = -std::log(1e-6);
  // To find that a mass of 0.05 is never drawn takes 13.8 nats plus the set's weight, at 0.0513
  // nats per draw: at least 269 draws.
  EXPECT_EQ(portfolio.losses_found(10, needed), 0U);
  EXPECT_EQ(portfolio.losses_found(600, needed), 5U);
  BetPortfolio drawn(distribution, some_sets(4));
  drawn.add(std::vector<std::uint64_t>{400, 150, 50, 0});
  EXPECT_GE(drawn.log_e(), needed);
}

// The test lists every outcome to check that P(L >= payment) <= rate, where L is the sum of ln(p' /
// p). For d = 1e-6 and 1e7 draws the payment is a thirtieth of a nat.
TEST(Betting, DistributionErrorPaymentCovers) {
  for (const double off : {0.05, 0.2}) {
    for (const double rate : {0.3, 0.01, 1e-4}) {
      const std::vector<double> target = {0.3, 0.7}, actual = {0.3 * (1 + off), 0.7 - 0.3 * off};
      const double chi_squared = off * off * 0.3 / 0.7;
      const std::uint64_t draws = 300;
      const double payment = distribution_error_payment(off, chi_squared, draws, rate);
      double exceeded = 0;
      for_each_outcome(actual, draws, [&](std::span<const std::uint64_t> counts, double mass) {
        const double gain = static_cast<double>(counts[0]) * std::log(actual[0] / target[0]) +
                            static_cast<double>(counts[1]) * std::log(actual[1] / target[1]);
        if (gain >= payment) exceeded += mass;
      });
      EXPECT_LE(exceeded, rate) << off << " " << rate;
    }
  }
  EXPECT_LE(distribution_error_payment(1e-6, 1e-12, 10'000'000, 1e-12), 0.03);
  EXPECT_EQ(distribution_error_payment(0, 0, 10'000'000, 1e-12), 0);
  EXPECT_EQ(distribution_error_payment(1, 1, 10, 1e-12), std::numeric_limits<double>::infinity());
}

// A float32 sampler whose weights are off by the allowed error never gains from this error.
TEST(Betting, AllowedDistributionErrorsWinNothing) {
  const std::vector<double> target = {0.5, 0.3, 0.15, 0.05};
  const std::vector<double> error(4, 0.02);
  BetPortfolio plain(target, some_sets(4)), allowing(target, some_sets(4));
  allowing.allow_distribution_error(error, 200'000, 1e-12);
  const std::vector<std::uint64_t> shifted = {102'000, 58'800, 29'400, 9'800};  // weights +-2 %
  plain.add(shifted);
  allowing.add(shifted);
  EXPECT_GT(plain.log_e(), std::log(1e12));
  EXPECT_LT(allowing.log_e(), 0);
}

TEST(Betting, EvidenceIsMerged) {
  const std::vector<double> parts = {0, 700, 1400}, weights = {0.5, 0.25, 0.25};
  EXPECT_LE(std::abs(mean_log_e(parts, weights) - (1400 + std::log(0.25))), 1400 * 0x1p-52);
  EXPECT_EQ(product_log_e(parts), 2100);
  EXPECT_EQ(e_to_p_value(-3), 1);
  EXPECT_EQ(e_to_p_value(2), std::exp(-2.0));
  const double nothing = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(mean_log_e(std::vector<double>{nothing, nothing}, std::vector<double>{0.5, 0.5}),
            nothing);
}

TEST(Betting, RefusesWhatIsNoDistributionAndNoCount) {
  EXPECT_THROW(DirichletMixture(std::vector<double>{1, 0}), std::invalid_argument);
  EXPECT_THROW(DirichletMixture(std::vector<double>(101, 1.0 / 101)), std::invalid_argument);
  DirichletMixture mixture(std::vector<double>{0.5, 0.5});
  EXPECT_THROW(mixture.add(std::vector<std::uint64_t>{1}), std::invalid_argument);
  EXPECT_THROW(mixture.add(std::vector<std::uint64_t>{kMaxBetDraws, 1}), std::invalid_argument);
  BetPortfolio portfolio(std::vector<double>{0.5, 0.5, 0}, some_sets(3));
  EXPECT_EQ(portfolio.bets(), 2U);  // because a token that cannot be drawn gets no bet
  EXPECT_THROW(portfolio.add(std::vector<std::uint64_t>{1, 1, 1}), std::invalid_argument);
  EXPECT_THROW(portfolio.add(std::vector<std::uint64_t>{kMaxBetDraws, 1, 0}),
               std::invalid_argument);
  EXPECT_THROW(BetPortfolio(std::vector<double>{0.5, 0.5}, some_sets(3)), std::invalid_argument);
}

// Every token of the support is in its lanes, ranks and buckets; tokens of probability 0 are in no
// set; the special tokens are in the right sets.
TEST(TokenSets, FollowTheDistribution) {
  std::vector<double> distribution = zipf_distribution(3000);
  for (std::size_t token = 3; token < 3000; token += 7) distribution[token] = 0;
  distribution[2999] = distribution[2998];  // makes two tokens tie at the boundary
  distribution = normalized(distribution);
  std::size_t whole = 0;
  for (const TokenSets& sets : directed_sets(distribution)) {
    ASSERT_EQ(sets.group_of.size(), distribution.size());
    std::size_t in_a_set = 0, support = 0;
    for (std::size_t token = 0; token < distribution.size(); ++token) {
      if (distribution[token] == 0) {
        EXPECT_EQ(sets.group_of[token], kNoCell) << sets.name;
      }
      support += distribution[token] > 0 ? 1U : 0U;
      in_a_set += sets.group_of[token] != kNoCell ? 1U : 0U;
    }
    EXPECT_GT(in_a_set, 0U) << sets.name;
    whole += in_a_set == support && sets.weight == 1 ? 1U : 0U;
    if (sets.name == "the last token") {
      EXPECT_EQ(sets.group_of[2999], 0U);
      EXPECT_EQ(in_a_set, 1U);
    }
    if (sets.name == "tokens tied with the least likely") {
      EXPECT_EQ(in_a_set, 2U);
    }
    if (sets.name == "lane of 32") {
      EXPECT_EQ(sets.group_of[2999], 2999U % 32);
    }
  }
  // The kinds are three sizes of lanes, two sizes of tiles, ranks and buckets.
  EXPECT_EQ(whole, 7U);
}

TEST(TokenSets, OfSmallVocabulariesAreSound) {
  for (const std::vector<double>& distribution :
       {std::vector<double>{1}, std::vector<double>{0.5, 0.5}, std::vector<double>{0, 1}}) {
    BetPortfolio portfolio(distribution, directed_sets(distribution));
    std::vector<std::uint64_t> counts(distribution.size(), 0);
    counts.back() = 5;
    portfolio.add(counts);
    EXPECT_EQ(portfolio.bets() == 0, distribution.size() == 1 || distribution[0] == 0);
    EXPECT_GE(portfolio.log_e(), distribution.size() == 2 && distribution[0] > 0 ? -5 : 0);
  }
}

}  // namespace
}  // namespace fairdraw::statistics
