#include "harness/statistics/binomial.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/special_functions/beta.hpp>
#include <boost/math/tools/roots.hpp>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "harness/statistics/argument.h"
#include "harness/statistics/policy.h"

namespace fairdraw::statistics {
namespace {

// Returns P(K <= k) = I_{1-p}(n - k, k + 1), computed as the complement of I_p(k + 1, n - k), so
// that 1 - p need not be computed.
double lower_tail(std::uint64_t k, std::uint64_t n, double p) {
  if (k == n || p == 0) return 1;
  if (p == 1) return 0;
  return boost::math::ibetac(static_cast<double>(k + 1), static_cast<double>(n - k), p, Policy());
}

// Returns P(K >= k) = I_p(k, n - k + 1).
double upper_tail(std::uint64_t k, std::uint64_t n, double p) {
  if (k == 0 || p == 1) return 1;
  if (p == 0) return 0;
  return boost::math::ibeta(static_cast<double>(k), static_cast<double>(n - k + 1), p, Policy());
}

// Returns the first k in [begin, end) for which the condition holds, or `end` if there is none.
// Precondition: if the condition holds for k, it holds for all larger k.
template <class Condition>
std::uint64_t first_where(std::uint64_t begin, std::uint64_t end, const Condition& condition) {
  while (begin < end) {
    const std::uint64_t middle = begin + (end - begin) / 2;
    if (condition(middle)) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}

// Returns the smallest count K that is rejected as too large, or trials + 1 if no count is.
std::uint64_t upper_critical_count(std::uint64_t trials, double p, double false_fail_rate) {
  return first_where(0, trials + 1, [&](std::uint64_t k) {
    return 2 * upper_tail(k, trials, p) <= false_fail_rate;
  });
}

// Returns the number K below which counts are rejected as too small, or 0 if no count is.
std::uint64_t lower_critical_count(std::uint64_t trials, double p, double false_fail_rate) {
  return first_where(
      0, trials, [&](std::uint64_t k) { return 2 * lower_tail(k, trials, p) > false_fail_rate; });
}

double power_above(std::uint64_t trials, double p, double actual, double false_fail_rate) {
  const std::uint64_t critical = upper_critical_count(trials, p, false_fail_rate);
  return critical > trials ? 0 : upper_tail(critical, trials, actual);
}

double power_below(std::uint64_t trials, double p, double actual, double false_fail_rate) {
  const std::uint64_t critical = lower_critical_count(trials, p, false_fail_rate);
  return critical == 0 ? 0 : lower_tail(critical - 1, trials, actual);
}

// Finds where a monotone function of a probability changes its sign, and returns the ends of a
// bracket that is at most 4 ulp wide. The function uses bisection, because bisection always
// terminates and keeps the root between the ends.
template <class Function>
std::pair<double, double> bracket_root(const Function& function, double low, double high) {
  const boost::math::tools::eps_tolerance<double> tolerance(std::numeric_limits<double>::digits -
                                                            2);
  std::uintmax_t iterations = 2000;  // 1075 halvings lead from 1 to the smallest subnormal
  return boost::math::tools::bisect(function, low, high, tolerance, iterations, Policy());
}

void require_trials(std::uint64_t trials, std::uint64_t lowest) {
  if (trials < lowest || trials > kMaxTrials) {
    throw std::invalid_argument(
        fmt::format("trials is {}; it must be in [{}, 2^40]", trials, lowest));
  }
}

void require_counts(std::uint64_t successes, std::uint64_t trials, double probability) {
  require_trials(trials, 0);
  if (successes > trials) {
    throw std::invalid_argument(
        fmt::format("successes is {}; it must be at most trials, {}", successes, trials));
  }
  require_probability("probability", probability);
}

void require_design(double probability, double false_fail_rate, double false_pass_rate) {
  require_probability("probability", probability);
  require_error_rate("false_fail_rate", false_fail_rate);
  require_error_rate("false_pass_rate", false_pass_rate);
}

}  // namespace

double binomial_lower_tail(std::uint64_t successes, std::uint64_t trials, double probability) {
  require_counts(successes, trials, probability);
  return lower_tail(successes, trials, probability);
}

double binomial_upper_tail(std::uint64_t successes, std::uint64_t trials, double probability) {
  require_counts(successes, trials, probability);
  return upper_tail(successes, trials, probability);
}

double binomial_p_value(std::uint64_t successes, std::uint64_t trials, double probability) {
  require_counts(successes, trials, probability);
  const double tail = std::min(lower_tail(successes, trials, probability),
                               upper_tail(successes, trials, probability));
  return std::min(1.0, 2 * tail);
}

double binomial_power(std::uint64_t trials, double probability, double actual,
                      double false_fail_rate) {
  require_trials(trials, 1);
  require_design(probability, false_fail_rate, 0.5);
  require_probability("actual", actual);
  if (actual > probability) return power_above(trials, probability, actual, false_fail_rate);
  if (actual < probability) return power_below(trials, probability, actual, false_fail_rate);
  return std::max(power_above(trials, probability, actual, false_fail_rate),
                  power_below(trials, probability, actual, false_fail_rate));
}

DetectableProbabilities binomial_detectable(std::uint64_t trials, double probability,
                                            double false_fail_rate, double false_pass_rate) {
  require_trials(trials, 1);
  require_design(probability, false_fail_rate, false_pass_rate);
  DetectableProbabilities found;
  const std::uint64_t above = upper_critical_count(trials, probability, false_fail_rate);
  if (above <= trials && probability < 1) {
    const auto miss = [&](double q) { return lower_tail(above - 1, trials, q) - false_pass_rate; };
    found.above = bracket_root(miss, probability, 1.0).second;
  }
  const std::uint64_t below = lower_critical_count(trials, probability, false_fail_rate);
  if (below > 0 && probability > 0) {
    const auto miss = [&](double q) { return upper_tail(below, trials, q) - false_pass_rate; };
    found.below = bracket_root(miss, 0.0, probability).first;
  }
  return found;
}

double binomial_min_discrepancy(std::uint64_t trials, double probability, double false_fail_rate,
                                double false_pass_rate) {
  const DetectableProbabilities found =
      binomial_detectable(trials, probability, false_fail_rate, false_pass_rate);
  constexpr double kNone = std::numeric_limits<double>::infinity();
  // If no probability q is found on a side, the discrepancy must be larger than that of any q on
  // that side: one step beyond the end of the range.
  const double above =
      found.above ? *found.above - probability : std::nextafter(1 - probability, kNone);
  const double below =
      found.below ? probability - *found.below : std::nextafter(probability, kNone);
  const double discrepancy = std::max(above, below);
  const bool finds_above = found.above && discrepancy <= 1 - probability;
  const bool finds_below = found.below && discrepancy <= probability;
  return finds_above || finds_below ? discrepancy : kNone;
}

std::uint64_t binomial_min_num_samples(double discrepancy, double probability,
                                       double false_fail_rate, double false_pass_rate) {
  require_design(probability, false_fail_rate, false_pass_rate);
  const double farthest = std::max(probability, 1 - probability);
  if (!(discrepancy > 0 && discrepancy <= farthest)) {
    throw std::invalid_argument(
        fmt::format("discrepancy is {}; it must be in (0, {}]", discrepancy, farthest));
  }
  const auto finds = [&](std::uint64_t trials) {
    return binomial_min_discrepancy(trials, probability, false_fail_rate, false_pass_rate) <=
           discrepancy;
  };
  std::uint64_t enough = 1;
  while (!finds(enough)) {
    if (enough >= kMaxTrials) {
      throw std::invalid_argument(
          fmt::format("discrepancy is {}; it must be large enough for 2^40 draws", discrepancy));
    }
    enough *= 2;
  }
  std::uint64_t too_few = enough / 2;
  while (enough - too_few > 1) {
    const std::uint64_t middle = too_few + (enough - too_few) / 2;
    (finds(middle) ? enough : too_few) = middle;
  }
  return enough;
}

Interval clopper_pearson_interval(std::uint64_t successes, std::uint64_t trials,
                                  double false_coverage_rate) {
  require_counts(successes, trials, 0);
  require_trials(trials, 1);
  require_error_rate("false_coverage_rate", false_coverage_rate);
  const double rate = false_coverage_rate / 2;
  Interval interval{0, 1};
  if (successes > 0) {
    const auto excess = [&](double q) { return upper_tail(successes, trials, q) - rate; };
    interval.lower = bracket_root(excess, 0.0, 1.0).first;
  }
  if (successes < trials) {
    const auto excess = [&](double q) { return lower_tail(successes, trials, q) - rate; };
    interval.upper = bracket_root(excess, 0.0, 1.0).second;
  }
  return interval;
}

}  // namespace fairdraw::statistics
