// Tests one bucket against all others by the exact binomial test. The test is valid at every number
// of draws and every level.
#pragma once

#include <cstdint>
#include <optional>

namespace fairdraw::statistics {

/// Two bounds. A function that returns an interval says for which quantity, and how often the
/// interval misses this quantity.
struct Interval {
  double lower = 0;
  double upper = 0;
};

/// The maximum number of trials of a binomial test. Boost's incomplete beta function loses digits
/// in proportion to its arguments: tails are right within a relative trials * 2^-53 + 2^-44
/// (measured against 60-digit arithmetic), which is 2^-13 for this number of trials.
inline constexpr std::uint64_t kMaxTrials = std::uint64_t{1} << 40;

/// Return P(K <= successes) and P(K >= successes) for K ~ Binomial(trials, probability), by the
/// regularised incomplete beta function. Neither tail loses digits, because neither tail is
/// computed by subtracting the other tail from 1. Precondition: successes <= trials <= kMaxTrials.
double binomial_lower_tail(std::uint64_t successes, std::uint64_t trials, double probability);
double binomial_upper_tail(std::uint64_t successes, std::uint64_t trials, double probability);

/// Returns twice the smaller exact tail, but at most 1. The probabilities 0 and 1 are handled
/// exactly, and the p-value of no trials is 1.
double binomial_p_value(std::uint64_t successes, std::uint64_t trials, double probability);

/// Returns the exact probability that binomial_p_value is at most false_fail_rate, on the side of
/// `actual`, if the success probability is `actual` instead of `probability`. If both probabilities
/// are equal, the function returns the larger power of the two sides.
double binomial_power(std::uint64_t trials, double probability, double actual,
                      double false_fail_rate);

/// The success probabilities closest to `probability` that `trials` draws find with miss
/// probability at most false_pass_rate. All probabilities that are farther away are found too. A
/// side has no value if the draws do not even find probability 0 on the side below, or probability
/// 1 on the side above.
struct DetectableProbabilities {
  std::optional<double> below;
  std::optional<double> above;
};
DetectableProbabilities binomial_detectable(std::uint64_t trials, double probability,
                                            double false_fail_rate, double false_pass_rate);

/// Returns the smallest d such that every success probability q in [0, 1] with |q - probability| >=
/// d is found with miss probability at most false_pass_rate when binomial_p_value is compared with
/// false_fail_rate. Returns infinity if no such probability q is found at any distance.
double binomial_min_discrepancy(std::uint64_t trials, double probability, double false_fail_rate,
                                double false_pass_rate);

/// Returns a number of trials that finds every q in [0, 1] at distance `discrepancy` or more, where
/// one trial fewer would not. The power is a saw-tooth function of the number of trials, so a
/// smaller number may also suffice. Precondition: `discrepancy` in (0, max(probability, 1 -
/// probability)].
std::uint64_t binomial_min_num_samples(double discrepancy, double probability,
                                       double false_fail_rate, double false_pass_rate);

/// Returns the interval of Clopper and Pearson (1934). The interval misses the success probability
/// with a rate of at most false_coverage_rate, half of this rate on each side.
Interval clopper_pearson_interval(std::uint64_t successes, std::uint64_t trials,
                                  double false_coverage_rate);

}  // namespace fairdraw::statistics
