#include "harness/statistics/combination.h"

#include <algorithm>
#include <cmath>

#include "harness/statistics/argument.h"
#include "harness/statistics/chi_squared.h"
#include "harness/statistics/compensated_sum.h"

namespace fairdraw::statistics {

double bonferroni_p_value(std::span<const double> p_values) {
  if (p_values.empty()) return 1;
  double smallest = 1;
  for (const double p : p_values) {
    require_probability("p_values", p);
    smallest = std::min(smallest, p);
  }
  return std::min(1.0, smallest * static_cast<double>(p_values.size()));
}

double fisher_p_value(std::span<const double> p_values) {
  CompensatedSum statistic;
  bool has_zero = false;
  for (const double p : p_values) {
    require_probability("p_values", p);
    has_zero = has_zero || p == 0;
    if (p > 0) statistic.add(-2 * std::log(p));
  }
  if (has_zero) return 0;
  if (p_values.empty()) return 1;
  return chi_squared_upper_tail(statistic.value(), 2 * static_cast<double>(p_values.size()));
}

double global_p_value(std::span<const double> p_values) {
  return std::min(1.0, 2 * std::min(bonferroni_p_value(p_values), fisher_p_value(p_values)));
}

}  // namespace fairdraw::statistics
