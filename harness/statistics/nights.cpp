#include "harness/statistics/nights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "harness/statistics/argument.h"
#include "harness/statistics/e_process.h"

namespace fairdraw::statistics {
namespace {

constexpr double kLargestLog = 690;  // -ln 10^-300; e^x overflows near 709

double weight_of(std::size_t night) {
  const double number = static_cast<double>(night);
  return 1 / (number * (number + 1));
}

// Returns ln M_T, given the values ln(e_s ... e_T) of each start s.
double with_starts(std::span<const double> log_products) {
  std::vector<double> parts, weights;
  for (std::size_t s = 1; s <= log_products.size(); ++s) {
    parts.push_back(log_products[s - 1]);
    weights.push_back(weight_of(s));
  }
  // The remaining weight, 1 - sum of 1 / (s (s + 1)) for s <= T, is not bet.
  parts.push_back(0);
  weights.push_back(1 / (static_cast<double>(log_products.size()) + 1));
  return mean_log_e(parts, weights);
}

}  // namespace

double p_to_log_e(double p_value) {
  require_probability("p_value", p_value);
  // With x = -ln p the e-value of p is (e^x - 1 - x) / x^2. For small x, where this difference
  // loses its digits, the code uses the series 1/2 + x/6 + x^2/24 + ...; the next term, x^3 / 120,
  // is below 2^-48 at 2^-14.
  const double x = p_value > 0 ? std::min(-std::log(p_value), kLargestLog) : kLargestLog;
  if (x < 0x1p-14) return std::log(0.5 + x / 6 + x * x / 24);
  return std::log(std::expm1(x) - x) - 2 * std::log(x);
}

double log_e_of_nights(std::span<const double> log_e) {
  std::vector<double> products(log_e.size());
  double product = 0;
  for (std::size_t s = log_e.size(); s > 0; --s) {
    product += log_e[s - 1];
    products[s - 1] = product;
  }
  return with_starts(products);
}

double log_e_of_nights(const CellsOfNights& nights, double rate) {
  const std::size_t last = nights.counts.size();
  std::vector<double> products(last);
  DirichletMixture mixture(nights.probability);
  for (std::size_t s = last; s > 0; --s) {
    mixture.add(nights.counts[s - 1]);
    products[s - 1] = mixture.log_e() -
                      distribution_error_payment(nights.relative_error, nights.chi_squared_error,
                                                 std::max<std::uint64_t>(mixture.draws(), 1),
                                                 rate * weight_of(s) * weight_of(last));
  }
  return with_starts(products);
}

double nights_min_discrepancy(const CellsOfNights& nights, double rate, double needed,
                              double false_pass_rate) {
  std::uint64_t draws = 0;
  for (const auto& counts : nights.counts) {
    draws = std::accumulate(counts.begin(), counts.end(), draws);
  }
  if (draws == 0) return std::numeric_limits<double>::infinity();
  const double payment =
      distribution_error_payment(nights.relative_error, nights.chi_squared_error, draws,
                                 rate * weight_of(1) * weight_of(nights.counts.size()));
  if (!std::isfinite(payment)) return payment;
  return dirichlet_min_discrepancy(draws, nights.probability,
                                   needed - std::log(weight_of(1)) + payment, false_pass_rate);
}

}  // namespace fairdraw::statistics
