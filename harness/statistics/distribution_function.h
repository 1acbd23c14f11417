// Dvoretzky, Kiefer, Wolfowitz and Massart: how far an empirical distribution function strays.
//
// Sound for every distribution, atoms included (then conservative), at every number of draws. Finds
// errors that are monotone in the chosen order of cells (temperature, truncation, a wrong prefix
// sum), whatever the vocabulary. Cannot see errors that cancel within a few neighbours of that
// order.
#pragma once

#include <cstdint>
#include <span>

namespace fairdraw::statistics {

/// min(1, 2 exp(-2 n D^2)), Massart 1990. distance in [0, 1].
double dkwm_p_value(double distance, std::uint64_t draws);

/// Sup distance D between the true and the target distribution function that `draws` draws find
/// with miss probability at most false_pass_rate. The critical distance c is
/// sqrt(ln(2 / false_fail_rate) / 2n); at the place of the largest true distance the empirical
/// function falls short by more than t with probability at most exp(-2 n t^2) (Hoeffding, one
/// side), so D = c + sqrt(ln(1 / false_pass_rate) / 2n). Above 1: nothing is found.
double dkwm_min_discrepancy(std::uint64_t draws, double false_fail_rate, double false_pass_rate);
std::uint64_t dkwm_min_num_samples(double discrepancy, double false_fail_rate,
                                   double false_pass_rate);

/// Sup distance between the empirical distribution function of counts and the target's, cells in
/// the given order. Both spans have one entry a cell; `probability` is a distribution (zeros
/// allowed).
double cdf_distance(std::span<const std::uint64_t> counts, std::span<const double> probability);

/// Sup distance of values in [0, 1] from the uniform distribution. Sorts a copy.
double uniform_distance(std::span<const double> values);

}  // namespace fairdraw::statistics
