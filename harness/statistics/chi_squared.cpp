#include "harness/statistics/chi_squared.h"

#include <fmt/format.h>

#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/non_central_chi_squared.hpp>
#include <cmath>
#include <stdexcept>

#include "harness/statistics/argument.h"
#include "harness/statistics/policy.h"

namespace fairdraw::statistics {
namespace {

using ChiSquared = boost::math::chi_squared_distribution<double, Policy>;
using NonCentralChiSquared = boost::math::non_central_chi_squared_distribution<double, Policy>;

void require_dof(double dof) {
  if (!(dof > 0 && std::isfinite(dof))) {
    throw std::invalid_argument(fmt::format("dof is {}; it must be positive and finite", dof));
  }
}

}  // namespace

double chi_squared_upper_tail(double statistic, double dof) {
  require_statistic("statistic", statistic);
  require_dof(dof);
  return cdf(complement(ChiSquared(dof), statistic));
}

double chi_squared_lower_tail(double statistic, double dof) {
  require_statistic("statistic", statistic);
  require_dof(dof);
  return cdf(ChiSquared(dof), statistic);
}

double chi_squared_critical_value(double dof, double false_fail_rate) {
  require_dof(dof);
  require_error_rate("false_fail_rate", false_fail_rate);
  return quantile(complement(ChiSquared(dof), false_fail_rate));
}

double chi_squared_required_non_centrality(double dof, double false_fail_rate,
                                           double false_pass_rate) {
  require_error_rate("false_pass_rate", false_pass_rate);
  const double critical = chi_squared_critical_value(dof, false_fail_rate);
  return NonCentralChiSquared::find_non_centrality(dof, critical, false_pass_rate);
}

double chi_squared_min_discrepancy(std::uint64_t draws, double dof, double false_fail_rate,
                                   double false_pass_rate) {
  require_draws("draws", draws, 1);
  const double needed = chi_squared_required_non_centrality(dof, false_fail_rate, false_pass_rate);
  return std::sqrt(needed / (4 * static_cast<double>(draws)));
}

std::uint64_t chi_squared_min_num_samples(double discrepancy, double dof, double false_fail_rate,
                                          double false_pass_rate) {
  require_discrepancy("discrepancy", discrepancy);
  const double needed = chi_squared_required_non_centrality(dof, false_fail_rate, false_pass_rate);
  const double exact = needed / (4 * discrepancy * discrepancy);
  std::uint64_t draws = draws_from(exact, "discrepancy", discrepancy);
  while (std::sqrt(needed / (4 * static_cast<double>(draws))) > discrepancy) ++draws;
  return draws;
}

}  // namespace fairdraw::statistics
