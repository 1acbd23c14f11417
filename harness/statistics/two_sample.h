// Tests whether two samples of unknown distributions come from the same distribution, for a change
// that must not change the distribution.
//
// The tests are valid at every number of draws, every number of cells and every level, for any
// distribution. Two right samplers whose arithmetic rounds differently have slightly different
// distributions. The distance of these two distributions is an argument of the test, and is no
// reason for an alarm.
#pragma once

#include <cstdint>
#include <span>

namespace fairdraw::statistics {

/// Bounds the probability that the total variation distance between two empirical distributions
/// over `cells` cells is `distance` or more, if the true distributions are at most `law_distance`
/// apart. The mean of each difference of two frequencies is at most its true value plus its
/// standard deviation. The standard deviations add up (Cauchy and Schwarz) to sqrt((cells - 1) h),
/// h = 1 / draws_a + 1 / draws_b, so the mean is at most law_distance + sqrt((cells - 1) h) / 2.
/// One draw of sample a changes the distance by at most 1 / draws_a, so the distance exceeds its
/// mean by t with probability at most exp(-2 t^2 / h) (McDiarmid).
double two_sample_distance_bound(double distance, std::uint32_t cells, std::uint64_t draws_a,
                                 std::uint64_t draws_b, double law_distance);

/// Returns the distance at which two_sample_distance_bound is `false_fail_rate`.
double two_sample_critical_distance(std::uint32_t cells, std::uint64_t draws_a,
                                    std::uint64_t draws_b, double law_distance,
                                    double false_fail_rate);

/// Returns the total variation distance between the two distributions over the cells that is found
/// with miss probability at most false_pass_rate. The mean of the empirical distance is at least
/// the true distance (the distance is convex), and the empirical distance falls short of its mean
/// by t with probability at most exp(-2 t^2 / h). A result above 1 means that the draws find no
/// distance at all.
double two_sample_min_discrepancy(std::uint32_t cells, std::uint64_t draws_a, std::uint64_t draws_b,
                                  double law_distance, double false_fail_rate,
                                  double false_pass_rate);

/// Returns the total variation distance between two tables of counts over the same cells; each
/// table has at least one draw.
double two_sample_distance(std::span<const std::uint64_t> counts_a,
                           std::span<const std::uint64_t> counts_b);

/// Tests one set of tokens by Fisher's exact test, given how many of all draws fell into the set.
/// Returns twice the smaller tail, but at most 1. The odds of the set in the two distributions may
/// differ by a factor of up to `odds_ratio` >= 1. The count then has Fisher's noncentral
/// hypergeometric distribution, whose weights are h(x) w^x over the mean of w^X under h. The mean
/// of w^X is at least w^E(X) (Jensen), so the terms h(x) w^(x - E) bound the upper tail, which
/// grows with w. The tail is summed from its edge outwards, and a geometric series bounds the rest.
/// The p-value is right within a relative error of draws * 2^-42 (nine values of ln Gamma, each to
/// 2 ulp), for up to 2^32 draws.
double two_sample_set_p_value(std::uint64_t count_a, std::uint64_t draws_a, std::uint64_t count_b,
                              std::uint64_t draws_b, double odds_ratio = 1);

}  // namespace fairdraw::statistics
