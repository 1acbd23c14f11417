#include "harness/statistics/g_test.h"

#include <fmt/format.h>

#include <boost/math/special_functions/log1p.hpp>
#include <boost/math/tools/roots.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "harness/statistics/argument.h"
#include "harness/statistics/policy.h"

namespace fairdraw::statistics {
namespace {

// Returns ln of the bound, m - a + m ln(a / m) = m (ln(1 + t) - t) with t = (a - m) / m.
double log_bound(double g, double free_cells) {
  const double excess = (g / 2 - free_cells) / free_cells;
  return excess <= 0 ? 0.0 : free_cells * boost::math::log1pmx(excess, Policy());
}

void require_two_cells(std::uint32_t cells) {
  if (cells < 2) throw std::invalid_argument(fmt::format("cells is {}; it must be >= 2", cells));
}

// Returns the detectable distance, multiplied by the square root of the number of draws.
double distance_of_one_draw(std::uint32_t cells, double false_fail_rate, double false_pass_rate) {
  require_error_rate("false_pass_rate", false_pass_rate);
  return std::sqrt(g_critical_value(cells, false_fail_rate)) / 2 +
         std::sqrt(-std::log(false_pass_rate) / 2);
}

}  // namespace

double g_upper_bound(double g, std::uint32_t cells) {
  require_statistic("g", g);
  if (cells == 0) throw std::invalid_argument("cells is 0; it must be >= 1");
  return cells == 1 ? 1.0 : std::exp(log_bound(g, cells - 1.0));
}

double g_critical_value(std::uint32_t cells, double false_fail_rate) {
  require_two_cells(cells);
  require_error_rate("false_fail_rate", false_fail_rate);
  const double free_cells = cells - 1.0;
  const double target = std::log(false_fail_rate);
  const auto above_rate = [&](double g) { return log_bound(g, free_cells) - target; };
  const double low = 2 * free_cells;  // for this value of G the bound on the p-value is 1
  double high = 2 * low;
  while (above_rate(high) > 0) high *= 2;
  const boost::math::tools::eps_tolerance<double> tolerance(std::numeric_limits<double>::digits -
                                                            2);
  std::uintmax_t iterations = 200;  // more than the 64 halvings that suffice for 53 bits
  return boost::math::tools::bisect(above_rate, low, high, tolerance, iterations, Policy()).second;
}

double g_min_discrepancy(std::uint64_t draws, std::uint32_t cells, double false_fail_rate,
                         double false_pass_rate) {
  require_draws("draws", draws, 1);
  return distance_of_one_draw(cells, false_fail_rate, false_pass_rate) /
         std::sqrt(static_cast<double>(draws));
}

std::uint64_t g_min_num_samples(double discrepancy, std::uint32_t cells, double false_fail_rate,
                                double false_pass_rate) {
  require_discrepancy("discrepancy", discrepancy);
  const double needed = distance_of_one_draw(cells, false_fail_rate, false_pass_rate);
  const double ratio = needed / discrepancy;
  std::uint64_t draws = draws_from(ratio * ratio, "discrepancy", discrepancy);
  while (needed / std::sqrt(static_cast<double>(draws)) > discrepancy) ++draws;
  return draws;
}

}  // namespace fairdraw::statistics
