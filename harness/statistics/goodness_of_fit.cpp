#include "harness/statistics/goodness_of_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "harness/statistics/argument.h"
#include "harness/statistics/chi_squared.h"
#include "harness/statistics/compensated_sum.h"
#include "harness/statistics/g_term.h"
#include "harness/statistics/g_test.h"

namespace fairdraw::statistics {
namespace {

constexpr double kSlackRate = 1e-6;

double mcdiarmid(double rate, double draws) { return std::sqrt(-std::log(rate) / (2 * draws)); }

}  // namespace

GoodnessOfFit goodness_of_fit(std::span<const std::uint64_t> counts,
                              std::span<const double> probability) {
  require_same_size("counts", counts.size(), "probability", probability.size());
  require_positive_distribution("probability", probability);
  const std::uint64_t total = require_total("counts", counts);
  const double draws = static_cast<double>(total);
  GoodnessOfFit fit;
  fit.total_variation_slack = total_variation_slack(probability, total, kSlackRate);
  if (counts.size() == 1) return fit;
  CompensatedSum chi_squared, g, difference;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * probability[i];
    const double observed = static_cast<double>(counts[i]);
    const double residual = observed - expected;
    chi_squared.add(residual * residual / expected);
    g.add(g_term(observed, expected));
    difference.add(std::abs(residual));
  }
  const auto cells = static_cast<std::uint32_t>(counts.size());
  fit.dof = cells - 1.0;
  fit.chi_squared = chi_squared.value();
  fit.chi_squared_p_value = chi_squared_upper_tail(fit.chi_squared, fit.dof);
  fit.chi_squared_too_good = chi_squared_lower_tail(fit.chi_squared, fit.dof);
  fit.g = g.value();
  fit.g_p_bound = g_upper_bound(fit.g, cells);
  fit.total_variation = std::min(1.0, difference.value() / (2 * draws));
  return fit;
}

double total_variation_slack(std::span<const double> probability, std::uint64_t draws,
                             double false_fail_rate) {
  require_distribution("probability", probability);
  require_draws("draws", draws, 1);
  require_error_rate("false_fail_rate", false_fail_rate);
  if (probability.size() == 1) return 0;
  const double n = static_cast<double>(draws);
  CompensatedSum mean;
  for (const double p : probability) mean.add(std::sqrt(p * (1 - p) / n) / 2);
  return std::min(1.0, mean.value() + mcdiarmid(false_fail_rate, n));
}

Interval total_variation_interval(double observed, std::uint32_t cells, std::uint64_t draws,
                                  double false_coverage_rate) {
  require_probability("observed", observed);
  require_draws("draws", draws, 1);
  require_error_rate("false_coverage_rate", false_coverage_rate);
  if (cells == 0) throw std::invalid_argument("cells is 0; it must be >= 1");
  if (cells == 1) return {0, 0};
  const double n = static_cast<double>(draws);
  const double deviation = mcdiarmid(false_coverage_rate / 2, n);
  const double noise = std::sqrt((cells - 1.0) / n) / 2;
  return {std::max(0.0, observed - deviation - noise), std::min(1.0, observed + deviation)};
}

}  // namespace fairdraw::statistics
