// The bound of Dvoretzky, Kiefer, Wolfowitz and Massart (DKWM) on the deviation of an empirical
// distribution function.
//
// The bound is valid for every distribution, also with atoms (then it is conservative), and at
// every number of draws. The test finds errors that are monotone in the chosen order of cells
// (temperature, truncation, a wrong prefix sum), for any vocabulary size. The test cannot detect
// errors that cancel among a few cells that are neighbours in the order.
#pragma once

#include <cstdint>
#include <span>

namespace fairdraw::statistics {

/// Returns the p-value min(1, 2 exp(-2 n D^2)), Massart 1990. Precondition: distance in [0, 1].
double dkwm_p_value(double distance, std::uint64_t draws);

/// Returns the largest difference D between the true and the target distribution function that
/// `draws` draws find with miss probability at most false_pass_rate. The critical distance c is
/// sqrt(ln(2 / false_fail_rate) / 2n). At the place of the largest true difference, the empirical
/// function falls short by more than t with probability at most exp(-2 n t^2) (Hoeffding, one
/// side), so D = c + sqrt(ln(1 / false_pass_rate) / 2n). A result above 1 means that no difference
/// is found.
double dkwm_min_discrepancy(std::uint64_t draws, double false_fail_rate, double false_pass_rate);
std::uint64_t dkwm_min_num_samples(double discrepancy, double false_fail_rate,
                                   double false_pass_rate);

/// Returns the largest difference between the empirical distribution function of counts and the
/// target's, with cells in the given order. Both arguments have one entry per cell; `probability`
/// is a distribution, which may have zeros.
double cdf_distance(std::span<const std::uint64_t> counts, std::span<const double> probability);

/// Returns the largest difference between the empirical distribution function of values in [0, 1]
/// and the uniform one. Sorts a copy.
double uniform_distance(std::span<const double> values);

}  // namespace fairdraw::statistics
