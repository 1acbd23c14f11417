#include "harness/statistics/distribution_function.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "harness/statistics/argument.h"
#include "harness/statistics/compensated_sum.h"

namespace fairdraw::statistics {
namespace {

// Returns the detectable distance, multiplied by the square root of the number of draws.
double distance_of_one_draw(double false_fail_rate, double false_pass_rate) {
  require_error_rate("false_fail_rate", false_fail_rate);
  require_error_rate("false_pass_rate", false_pass_rate);
  return std::sqrt(-std::log(false_fail_rate / 2) / 2) + std::sqrt(-std::log(false_pass_rate) / 2);
}

}  // namespace

double dkwm_p_value(double distance, std::uint64_t draws) {
  require_probability("distance", distance);
  require_draws("draws", draws, 1);
  return std::min(1.0, 2 * std::exp(-2 * static_cast<double>(draws) * distance * distance));
}

double dkwm_min_discrepancy(std::uint64_t draws, double false_fail_rate, double false_pass_rate) {
  require_draws("draws", draws, 1);
  return distance_of_one_draw(false_fail_rate, false_pass_rate) /
         std::sqrt(static_cast<double>(draws));
}

std::uint64_t dkwm_min_num_samples(double discrepancy, double false_fail_rate,
                                   double false_pass_rate) {
  require_discrepancy("discrepancy", discrepancy);
  const double ratio = distance_of_one_draw(false_fail_rate, false_pass_rate) / discrepancy;
  std::uint64_t draws = draws_from(ratio * ratio, "discrepancy", discrepancy);
  while (dkwm_min_discrepancy(draws, false_fail_rate, false_pass_rate) > discrepancy) ++draws;
  return draws;
}

double cdf_distance(std::span<const std::uint64_t> counts, std::span<const double> probability) {
  require_same_size("counts", counts.size(), "probability", probability.size());
  require_distribution("probability", probability);
  const double draws = static_cast<double>(require_total("counts", counts));
  CompensatedSum target;
  std::uint64_t seen = 0;
  double distance = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    target.add(probability[i]);
    seen += counts[i];
    distance = std::max(distance, std::abs(static_cast<double>(seen) / draws - target.value()));
  }
  return std::min(distance, 1.0);
}

double uniform_distance(std::span<const double> values) {
  require_draws("size of values", values.size(), 1);
  for (const double value : values) require_probability("values", value);
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const double draws = static_cast<double>(sorted.size());
  double distance = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    distance = std::max({distance, sorted[i] - static_cast<double>(i) / draws,
                         static_cast<double>(i + 1) / draws - sorted[i]});
  }
  return distance;
}

}  // namespace fairdraw::statistics
