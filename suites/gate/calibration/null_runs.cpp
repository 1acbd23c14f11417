#include "suites/gate/calibration/null_runs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "harness/adapters/model_sampler.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/statistical/pit_bands.h"
#include "harness/statistics/statistics.h"
#include "suites/gate/cases/case.h"

namespace fairdraw::suites {
namespace {

// Makes draws from small distributions. The class uses the top 52 bits of the generator, so that
// every standard library gives the same draws.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : generator_(seed) {}

  /// Returns a uniform number in (0, 1).
  double uniform() { return (static_cast<double>(generator_() >> 12) + 0.5) * 0x1p-52; }

  std::vector<double> uniforms(std::size_t count) {
    std::vector<double> values(count);
    for (double& value : values) value = uniform();
    return values;
  }

  std::vector<std::uint64_t> counts(const std::vector<double>& distribution, std::uint64_t draws) {
    std::vector<double> upto;
    double sum = 0;
    for (const double p : distribution) upto.push_back(sum += p);
    std::vector<std::uint64_t> counts(distribution.size(), 0);
    for (std::uint64_t i = 0; i < draws; ++i) {
      const auto at = std::upper_bound(upto.begin(), upto.end(), uniform() * sum);
      const auto cell = static_cast<std::size_t>(at - upto.begin());
      ++counts[std::min(cell, distribution.size() - 1)];
    }
    return counts;
  }

 private:
  std::mt19937_64 generator_;
};

std::vector<double> zipf(std::size_t size) {
  std::vector<double> distribution(size);
  double sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += distribution[i] = 1 / static_cast<double>(i + 1);
  for (double& p : distribution) p /= sum;
  return distribution;
}

using statistics::goodness_of_fit;

double binomial_run(std::uint64_t seed) {
  return statistics::binomial_p_value(Draws(seed).counts({0.1, 0.9}, 500)[0], 500, 0.1);
}

double exact_multinomial_run(std::uint64_t seed) {
  const std::vector<double> distribution = {0.5, 0.3, 0.15, 0.05};
  return statistics::exact_multinomial_p_value(Draws(seed).counts(distribution, 40), distribution);
}

// The draws have few cells, because the bound grows with the number of cells; with many cells, the
// p-values would all be large.
double g_run(std::uint64_t seed) {
  static const std::vector<double> distribution = zipf(4);
  return goodness_of_fit(Draws(seed).counts(distribution, 500), distribution).g_p_bound;
}

// Cells are pooled as in check_chi_squared. The test needs 400 expected draws per cell, and at
// least 10 cells for Pearson's statistic but 30 cells to test for too good a fit.
double chi_squared_run(std::uint64_t seed) {
  static const std::vector<double> distribution(10, 0.1);
  return goodness_of_fit(Draws(seed).counts(distribution, 4000), distribution).chi_squared_p_value;
}

double too_good_run(std::uint64_t seed) {
  static const std::vector<double> distribution(30, 1.0 / 30);
  return goodness_of_fit(Draws(seed).counts(distribution, 12'000), distribution)
      .chi_squared_too_good;
}

double dkwm_run(std::uint64_t seed) {
  static const std::vector<double> distribution = zipf(200);
  return statistics::dkwm_p_value(
      statistics::cdf_distance(Draws(seed).counts(distribution, 500), distribution), 500);
}

double uniformity_run(std::uint64_t seed) {
  return statistics::uniformity_p_value(Draws(seed).uniforms(300));
}

// Tests uniform values that have keys, in bands of their keys.
double bands_run(std::uint64_t seed) {
  Draws draws(seed);
  const std::vector<double> keys = draws.uniforms(256), values = draws.uniforms(256);
  return harness::fit_in_bands(keys, values).p_value;
}

double lag_correlation_run(std::uint64_t seed) {
  return statistics::lag_correlation_p_value(Draws(seed).uniforms(200), 1);
}

double lag_agreement_run(std::uint64_t seed) {
  return statistics::lag_agreement_p_value(Draws(seed).uniforms(200), 3);
}

double pair_correlation_run(std::uint64_t seed) {
  Draws draws(seed);
  const std::vector<double> first = draws.uniforms(100), second = draws.uniforms(100);
  return statistics::pair_correlation_p_value(first, second);
}

double pair_agreement_run(std::uint64_t seed) {
  Draws draws(seed);
  const std::vector<double> first = draws.uniforms(200), second = draws.uniforms(200);
  return statistics::pair_agreement_p_value(first, second);
}

double pair_table_run(std::uint64_t seed) {
  static const std::vector<double> distribution(4, 0.25);
  Draws draws(seed);
  const std::vector<double> first = draws.uniforms(200), second = draws.uniforms(200);
  return goodness_of_fit(statistics::pair_counts(first, second, 2), distribution).g_p_bound;
}

// Computes the Dirichlet mixture after each of eight batches of draws.
double dirichlet_run(std::uint64_t seed) {
  static const std::vector<double> distribution = zipf(10);
  Draws draws(seed);
  statistics::DirichletMixture mixture(distribution);
  for (int look = 0; look < 8; ++look) mixture.add(draws.counts(distribution, 100));
  return statistics::e_to_p_value(mixture.max_log_e());
}

double portfolio_run(std::uint64_t seed) {
  static const std::vector<double> distribution = zipf(24);
  static const statistics::BetPortfolio fresh(distribution,
                                              statistics::directed_sets(distribution));
  Draws draws(seed);
  statistics::BetPortfolio portfolio = fresh;
  for (int look = 0; look < 4; ++look) portfolio.add(draws.counts(distribution, 200));
  return statistics::e_to_p_value(portfolio.max_log_e());
}

double global_run(std::uint64_t seed) {
  Draws draws(seed);
  std::vector<double> p_values;
  for (int i = 0; i < 8; ++i) {
    p_values.push_back(statistics::binomial_p_value(draws.counts({0.4, 0.6}, 100)[0], 100, 0.4));
  }
  return statistics::global_p_value(p_values);
}

// Runs one whole statistical check on the integer model. Returns the p-value of the case, or 0 if
// the case fails for any reason.
double case_run(harness::CheckOutcome (*check)(const harness::CheckInput&), std::uint64_t draws,
                std::int64_t rows, std::uint64_t seed, std::size_t temperatures = 1) {
  static const auto logits =
      harness::family_source(harness::Family::gaussian, 1, 24, DType::float32);
  harness::ModelSampler sampler;
  harness::CheckInput input;
  input.sampler = &sampler;
  input.semantics = *reference::find_profile("fairdraw");
  input.logits = logits.get();
  for (std::size_t i = 0; i < temperatures; ++i) {
    input.parameters.push_back({.temperature = 1 + static_cast<float>(i) / 32});
  }
  input.rows = rows;
  input.draws = draws;
  input.declared_discrepancy = std::numeric_limits<double>::infinity();  // none declared
  input.seed = seed;
  input.false_fail_rate = gate_level();
  const harness::CheckOutcome outcome = check(input);
  const bool passed = outcome.verdict == harness::Verdict::passed && outcome.p_value.has_value();
  return passed ? *outcome.p_value : 0;
}

}  // namespace

double gate_level() { return statistics::ErrorLedger(kStatisticalCases).case_share(); }

const std::vector<NullRun>& null_runs() {
  using enum Validity;
  static const std::vector<NullRun> all = {
      {"binomial", exact, binomial_run},
      {"exact_multinomial", exact, exact_multinomial_run},
      {"g", bound, g_run},
      {"chi_squared", limit, chi_squared_run},
      {"too_good", limit, too_good_run},
      {"dkwm", bound, dkwm_run},
      {"uniformity", bound, uniformity_run},
      {"bands", bound, bands_run},
      {"lag_correlation", bound, lag_correlation_run},
      {"lag_agreement", exact, lag_agreement_run},
      {"pair_correlation", exact, pair_correlation_run},
      {"pair_agreement", exact, pair_agreement_run},
      {"pair_table", bound, pair_table_run},
      {"dirichlet_bets", bet, dirichlet_run},
      {"portfolio_bets", bet, portfolio_run},
      {"global", bound, global_run},
      {"check chi_squared", limit,
       [](std::uint64_t seed) { return case_run(harness::check_chi_squared, 4000, 1, seed); }},
      {"check bets", bet,
       [](std::uint64_t seed) { return case_run(harness::check_bets, 1000, 1, seed); }},
      {"check binomial", exact,
       [](std::uint64_t seed) { return case_run(harness::check_binomial, 500, 1, seed); }},
      {"check pit", bound,
       [](std::uint64_t seed) { return case_run(harness::check_pit, 192, 48, seed); }},
      {"check pit, bands", bound,
       [](std::uint64_t seed) { return case_run(harness::check_pit, 192, 48, seed, 48); }},
  };
  return all;
}

}  // namespace fairdraw::suites
