#include "harness/statistics/two_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <stdexcept>

#include "harness/statistics/argument.h"
#include "harness/statistics/policy.h"

namespace fairdraw::statistics {
namespace {

struct Spread {
  double h;  // 1 / draws_a + 1 / draws_b
  // Maximum by which the mean observed distance exceeds the distance of the distributions.
  double noise;
};

Spread spread(std::uint32_t cells, std::uint64_t draws_a, std::uint64_t draws_b,
              double law_distance) {
  require_draws("draws_a", draws_a, 1);
  require_draws("draws_b", draws_b, 1);
  require_probability("law_distance", law_distance);
  if (cells == 0) throw std::invalid_argument("cells is 0; it must be >= 1");
  const double h = 1 / static_cast<double>(draws_a) + 1 / static_cast<double>(draws_b);
  return {h, std::sqrt((cells - 1.0) * h) / 2};
}

// Returns the amount by which a distance exceeds its mean with probability `rate` at most.
double deviation(double h, double rate) { return std::sqrt(-std::log(rate) * h / 2); }

double log_choose(double n, double k) {
  const auto log_gamma = [](double x) { return boost::math::lgamma(x, Policy()); };
  return log_gamma(n + 1) - log_gamma(k + 1) - log_gamma(n - k + 1);
}

// Returns P(X >= count_a), where X is hypergeometric given the sum of the counts, and its weights
// are tilted by `odds`.
double upper_tail(double count_a, double draws_a, double count_b, double draws_b, double odds) {
  const double sum = count_a + count_b;
  const double mean = sum * draws_a / (draws_a + draws_b);
  if (count_a <= mean) return 1;
  double x = count_a;
  const double log_first = log_choose(draws_a, x) + log_choose(draws_b, sum - x) -
                           log_choose(draws_a + draws_b, sum) + (x - mean) * std::log(odds);
  // All terms are relative to the first term, which by itself may underflow.
  double term = 1, total = 1;
  const double last = std::min(sum, draws_a);
  while (x < last) {
    const double ratio = odds * (draws_a - x) * (sum - x) / ((x + 1) * (draws_b - sum + x + 1));
    // Ratios of successive terms decrease along the tail, so a geometric series bounds the rest of
    // the sum.
    const double rest = ratio < 1 ? term * ratio / (1 - ratio) : term;
    if (ratio < 1 && rest < total * 0x1p-53) {
      total += rest;
      break;
    }
    term *= ratio;
    total += term;
    x += 1;
  }
  return std::min(1.0, std::exp(log_first + std::log(total)));
}

}  // namespace

double two_sample_distance_bound(double distance, std::uint32_t cells, std::uint64_t draws_a,
                                 std::uint64_t draws_b, double law_distance) {
  require_probability("distance", distance);
  const Spread expected = spread(cells, draws_a, draws_b, law_distance);
  const double beyond = distance - law_distance - expected.noise;
  return beyond <= 0 ? 1.0 : std::exp(-2 * beyond * beyond / expected.h);
}

double two_sample_critical_distance(std::uint32_t cells, std::uint64_t draws_a,
                                    std::uint64_t draws_b, double law_distance,
                                    double false_fail_rate) {
  require_error_rate("false_fail_rate", false_fail_rate);
  const Spread expected = spread(cells, draws_a, draws_b, law_distance);
  return law_distance + expected.noise + deviation(expected.h, false_fail_rate);
}

double two_sample_min_discrepancy(std::uint32_t cells, std::uint64_t draws_a, std::uint64_t draws_b,
                                  double law_distance, double false_fail_rate,
                                  double false_pass_rate) {
  require_error_rate("false_pass_rate", false_pass_rate);
  const double critical =
      two_sample_critical_distance(cells, draws_a, draws_b, law_distance, false_fail_rate);
  return critical + deviation(spread(cells, draws_a, draws_b, law_distance).h, false_pass_rate);
}

double two_sample_distance(std::span<const std::uint64_t> counts_a,
                           std::span<const std::uint64_t> counts_b) {
  require_same_size("counts_a", counts_a.size(), "counts_b", counts_b.size());
  const auto draws_a = static_cast<double>(require_total("counts_a", counts_a));
  const auto draws_b = static_cast<double>(require_total("counts_b", counts_b));
  double distance = 0;
  for (std::size_t i = 0; i < counts_a.size(); ++i) {
    distance += std::abs(static_cast<double>(counts_a[i]) / draws_a -
                         static_cast<double>(counts_b[i]) / draws_b);
  }
  return std::min(1.0, distance / 2);
}

double two_sample_set_p_value(std::uint64_t count_a, std::uint64_t draws_a, std::uint64_t count_b,
                              std::uint64_t draws_b, double odds_ratio) {
  constexpr std::uint64_t kMax = std::uint64_t{1} << 32U;
  if (count_a > draws_a || count_b > draws_b || draws_a > kMax || draws_b > kMax) {
    throw std::invalid_argument(
        fmt::format("counts {} of {} and {} of {} draws; each must be at most its draws, and these "
                    "at most 2^32",
                    count_a, draws_a, count_b, draws_b));
  }
  if (!(odds_ratio >= 1) || std::isinf(odds_ratio)) {
    throw std::invalid_argument(fmt::format("odds_ratio is {}; it must be >= 1", odds_ratio));
  }
  const auto a = static_cast<double>(count_a), b = static_cast<double>(count_b);
  const auto n_a = static_cast<double>(draws_a), n_b = static_cast<double>(draws_b);
  const double above = upper_tail(a, n_a, b, n_b, odds_ratio);
  const double below = upper_tail(b, n_b, a, n_a, odds_ratio);
  return std::min(1.0, 2 * std::min(above, below));
}

}  // namespace fairdraw::statistics
