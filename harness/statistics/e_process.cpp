#include "harness/statistics/e_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "harness/statistics/argument.h"
#include "harness/statistics/compensated_sum.h"
#include "harness/statistics/policy.h"

namespace fairdraw::statistics {
namespace {

// The values of the concentration kappa, which are half a decade apart. The best kappa of the grid
// is off by at most a factor 1.8, which costs the exponent less than the ln 10 = 2.3 nats that ten
// values cost.
constexpr std::array<double, 10> kConcentrations = {30,    100,   300,    1000,   3000,
                                                    10000, 30000, 100000, 300000, 1000000};
// The shares of the divergence that the design may use to cover the second term of its bound.
constexpr std::array<double, 6> kSpentShares = {0x1p-8, 0x1p-6, 0x1p-5, 0x1p-4, 0x1p-3, 0x1p-2};

// Returns the remainder of Stirling's formula, 1/(12x) - 1/(360x^3) + 1/(1260x^5) - 1/(1680x^7).
// For x >= 16 the next term of the series, 1/(1188x^9), is below 2^-46.
double stirling_remainder(double x) {
  const double inverse = 1 / x;
  const double square = inverse * inverse;
  return inverse *
         (1.0 / 12 - square * (1.0 / 360 - square * (1.0 / 1260 - square * (1.0 / 1680))));
}

double log_dirichlet(std::span<const std::uint64_t> counts, std::span<const double> probability,
                     double draws, double concentration) {
  CompensatedSum sum;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const double count = static_cast<double>(counts[i]);
    sum.add(log_rising_factorial(concentration * probability[i], count));
    sum.add(-count * std::log(probability[i]));
  }
  sum.add(-log_rising_factorial(concentration, draws));
  return sum.value();
}

}  // namespace

double log_rising_factorial(double x, double m) {
  if (m == 0) return 0;
  if (x < 16) {
    return boost::math::lgamma(x + m, Policy()) - boost::math::lgamma(x, Policy());
  }
  return (x - 0.5) * std::log1p(m / x) + m * (std::log(x + m) - 1) + stirling_remainder(x + m) -
         stirling_remainder(x);
}

DirichletMixture::DirichletMixture(std::span<const double> probability)
    : probability_(probability.begin(), probability.end()), counts_(probability.size(), 0) {
  require_positive_distribution("probability", probability);
  if (probability.size() > kMaxCells) {
    throw std::invalid_argument(
        fmt::format("{} cells; it must be at most {}", probability.size(), kMaxCells));
  }
}

void DirichletMixture::add(std::span<const std::uint64_t> counts) {
  require_same_size("counts", counts.size(), "probability", probability_.size());
  std::uint64_t more = 0;
  for (const std::uint64_t count : counts) {
    more += std::min(count, kMaxBetDraws + 1);  // the sum of 100 such counts does not overflow
  }
  if (more > kMaxBetDraws - draws_) {
    throw std::invalid_argument(
        fmt::format("{} draws after {}; together it must be at most 2^36", more, draws_));
  }
  for (std::size_t i = 0; i < counts.size(); ++i) counts_[i] += counts[i];
  draws_ += more;
  std::array<double, kConcentrations.size()> parts{}, weights{};
  weights.fill(1.0 / static_cast<double>(weights.size()));
  for (std::size_t k = 0; k < parts.size(); ++k) {
    parts[k] =
        log_dirichlet(counts_, probability_, static_cast<double>(draws_), kConcentrations[k]);
  }
  log_e_ = mean_log_e(parts, weights);
  max_log_e_ = std::max(max_log_e_, log_e_);
}

double dirichlet_min_discrepancy(std::uint64_t draws, std::span<const double> probability,
                                 double needed, double false_pass_rate) {
  require_draws("draws", draws, 1);
  require_positive_distribution("probability", probability);
  require_statistic("needed", needed);
  require_error_rate("false_pass_rate", false_pass_rate);
  const double n = static_cast<double>(draws);
  const double free_cells = static_cast<double>(probability.size()) - 1;
  CompensatedSum inverse;
  for (const double p : probability) inverse.add(1 / p);
  double best = std::numeric_limits<double>::infinity();
  for (const double kappa : kConcentrations) {
    const double total = n + kappa;
    const double cost = needed + std::log(static_cast<double>(kConcentrations.size())) +
                        free_cells / 2 * std::log1p(n / kappa) + inverse.value() / (12 * kappa);
    for (const double share : kSpentShares) {
      const double all = cost + inverse.value() / (4 * share * total);
      best = std::min(best, std::sqrt(all * total / (2 * (1 - share))) / n);
    }
  }
  return best + std::sqrt(-std::log(false_pass_rate) / (2 * n));
}

double mean_log_e(std::span<const double> log_e, std::span<const double> weights) {
  require_same_size("log_e", log_e.size(), "weights", weights.size());
  const double largest = *std::max_element(log_e.begin(), log_e.end());
  if (!(largest > -std::numeric_limits<double>::infinity())) return largest;
  CompensatedSum sum;
  for (std::size_t i = 0; i < log_e.size(); ++i) sum.add(weights[i] * std::exp(log_e[i] - largest));
  return largest + std::log(sum.value());
}

double product_log_e(std::span<const double> log_e) {
  CompensatedSum sum;
  for (const double part : log_e) sum.add(part);
  return sum.value();
}

double e_to_p_value(double log_e) { return std::min(1.0, std::exp(-log_e)); }

double distribution_error_payment(double relative_error, double chi_squared, std::uint64_t draws,
                                  double rate) {
  require_statistic("relative_error", relative_error);
  require_statistic("chi_squared", chi_squared);
  require_draws("draws", draws, 1);
  require_error_rate("rate", rate);
  if (relative_error == 0) return 0;
  double best = std::numeric_limits<double>::infinity();
  if (relative_error >= 1) return best;
  for (double lambda = 1; lambda <= 0x1p30; lambda *= 1.25) {
    const double growth = std::exp(lambda * std::log1p(relative_error));
    const double gain = lambda * (1 + lambda) / 2 * chi_squared * growth;
    best =
        std::min(best, (static_cast<double>(draws) * std::log1p(gain) - std::log(rate)) / lambda);
  }
  return best;
}

}  // namespace fairdraw::statistics
