// Exact binomial test of one bucket against the rest. The test is valid at every number of draws
// and every level.
#pragma once

#include <cstdint>
#include <optional>

namespace fairdraw::statistics {

/// Two bounds. The function that returns an interval says for which quantity, and how often the
/// interval misses it.
struct Interval {
  double lower = 0;
  double upper = 0;
};

/// Maximum number of trials of a binomial test. Boost's incomplete beta function loses digits in
/// proportion to its arguments: tails are right within a relative trials * 2^-53 + 2^-44 (measured
/// against 60-digit arithmetic), here 2^-13.
inline constexpr std::uint64_t kMaxTrials = std::uint64_t{1} << 40;

/// Return P(K <= successes) and P(K >= successes), K ~ Binomial(trials, probability), by the
/// regularised incomplete beta function. Neither tail is computed as 1 minus the other.
/// Precondition: successes <= trials <= kMaxTrials.
double binomial_lower_tail(std::uint64_t successes, std::uint64_t trials, double probability);
double binomial_upper_tail(std::uint64_t successes, std::uint64_t trials, double probability);

/// Returns twice the smaller exact tail, at most 1. Probabilities 0 and 1 are handled exactly, and
/// the p-value of no trials is 1.
double binomial_p_value(std::uint64_t successes, std::uint64_t trials, double probability);

/// Returns P(binomial_p_value <= false_fail_rate on the side of `actual`) if the success
/// probability is `actual` instead of `probability`; exact. If both probabilities are equal, the
/// power is the larger of both sides.
double binomial_power(std::uint64_t trials, double probability, double actual,
                      double false_fail_rate);

/// The success probabilities closest to `probability` that `trials` draws find with miss
/// probability at most false_pass_rate. All probabilities farther from it are found too. A side has
/// no value if even probability 0, or 1, is not found.
struct DetectableProbabilities {
  std::optional<double> below;
  std::optional<double> above;
};
DetectableProbabilities binomial_detectable(std::uint64_t trials, double probability,
                                            double false_fail_rate, double false_pass_rate);

/// Returns the smallest d such that every success probability q in [0, 1] with |q - probability| >=
/// d is found with miss probability at most false_pass_rate when binomial_p_value is compared with
/// false_fail_rate. Returns infinity if there is no such probability q at any distance.
double binomial_min_discrepancy(std::uint64_t trials, double probability, double false_fail_rate,
                                double false_pass_rate);

/// Returns a number of trials that finds every q in [0, 1] at distance `discrepancy` or more, while
/// one trial fewer does not. Power is a saw-tooth in the number of trials, so a smaller number may
/// also suffice by chance. Precondition: `discrepancy` in (0, max(probability, 1 - probability)].
std::uint64_t binomial_min_num_samples(double discrepancy, double probability,
                                       double false_fail_rate, double false_pass_rate);

/// Returns the interval of Clopper and Pearson (1934). The interval misses the success probability
/// with a rate of at most false_coverage_rate, half of it on each side.
Interval clopper_pearson_interval(std::uint64_t successes, std::uint64_t trials,
                                  double false_coverage_rate);

}  // namespace fairdraw::statistics
