// Computes tails of the chi-squared distribution, and numbers of draws from the non-central
// distribution.
//
// The chi-squared tail and its power are only right in the limit of large expected counts. At a
// level of 1e-12 the tail is right within a factor 2.3 for at least 10 cells with expected
// counts >= 400 each; with the usual condition "expected >= 5" the tail is too small by a factor of
// 10^4. For this reason Pearson's statistic only explains a result, and the test of g_test.h
// decides.
#pragma once

#include <cstdint>

namespace fairdraw::statistics {

/// Return P(X >= statistic) and P(X <= statistic) for X ~ chi-squared(dof), dof > 0. The lower tail
/// is for results that fit too well (cached outputs, stratified draws, an oracle that is compared
/// with itself).
double chi_squared_upper_tail(double statistic, double dof);
double chi_squared_lower_tail(double statistic, double dof);

/// Returns the statistic whose upper tail is false_fail_rate.
double chi_squared_critical_value(double dof, double false_fail_rate);

/// Returns lambda*, the non-centrality for which a statistic, compared with the critical value of
/// false_fail_rate, is missed with probability false_pass_rate.
double chi_squared_required_non_centrality(double dof, double false_fail_rate,
                                           double false_pass_rate);

/// Returns the total variation distance between the pooled distributions that `draws` draws find
/// with miss probability false_pass_rate at level false_fail_rate. If the true distribution is q,
/// the non-centrality is n phi^2 with phi^2 = sum (q - p)^2 / p >= 4 TV^2 (Cauchy and Schwarz, any
/// p), so TV = sqrt(lambda* / 4n). A result above 1 means that the draws find no distance at all.
double chi_squared_min_discrepancy(std::uint64_t draws, double dof, double false_fail_rate,
                                   double false_pass_rate);
std::uint64_t chi_squared_min_num_samples(double discrepancy, double dof, double false_fail_rate,
                                          double false_pass_rate);

}  // namespace fairdraw::statistics
