// Two samples of unknown distributions: do they come from one distribution? For a change that must
// not change it.
//
// Sound at every number of draws, every number of cells and every level, with nothing assumed of
// the distribution. Two rounding samplers that are both right have distributions that are a little
// apart: how far is an argument, and no reason for an alarm.
#pragma once

#include <cstdint>
#include <span>

namespace fairdraw::statistics {

/// Bound on the probability that the total variation between two empirical distributions over
/// `cells` cells is `distance` or more, where the distributions are at most `law_distance` apart.
/// Each difference of two frequencies has a mean of at most its true value and its standard
/// deviation, these add up (Cauchy and Schwarz) to sqrt((cells - 1) h), h = 1 / draws_a + 1 /
/// draws_b, so that the mean is at most law_distance + sqrt((cells - 1) h) / 2; and one draw of
/// sample a moves the distance by 1 / draws_a at most, so that it exceeds its mean by t with
/// probability at most exp(-2 t^2 / h) (McDiarmid).
double two_sample_distance_bound(double distance, std::uint32_t cells, std::uint64_t draws_a,
                                 std::uint64_t draws_b, double law_distance);

/// The distance at which that bound is `false_fail_rate`.
double two_sample_critical_distance(std::uint32_t cells, std::uint64_t draws_a,
                                    std::uint64_t draws_b, double law_distance,
                                    double false_fail_rate);

/// Total variation between the two distributions, over the cells, that is found with miss
/// probability at most false_pass_rate: the empirical distance has a mean of at least the true one
/// (it is convex), and falls short of its mean by t with probability at most exp(-2 t^2 / h). Above
/// 1: nothing is.
double two_sample_min_discrepancy(std::uint32_t cells, std::uint64_t draws_a, std::uint64_t draws_b,
                                  double law_distance, double false_fail_rate,
                                  double false_pass_rate);

/// Total variation between two tables of counts over the same cells, at least one draw each.
double two_sample_distance(std::span<const std::uint64_t> counts_a,
                           std::span<const std::uint64_t> counts_b);

/// One set of tokens: Fisher's exact test, given how many of all draws fell on it. The smaller
/// tail, doubled, at most 1. Where the odds of the set in the two distributions may differ by a
/// factor of up to `odds_ratio` >= 1 the count is Fisher's noncentral hypergeometric, whose weights
/// are h(x) w^x over the mean of w^X under h, which is at least w^E(X) (Jensen): terms h(x) w^(x -
/// E) bound its upper tail, which grows with w. Summed from the edge of the tail outwards, the rest
/// as a geometric series; right within a relative draws * 2^-42 (nine values of ln Gamma, each to 2
/// ulp), draws up to 2^32.
double two_sample_set_p_value(std::uint64_t count_a, std::uint64_t draws_a, std::uint64_t count_b,
                              std::uint64_t draws_b, double odds_ratio = 1);

}  // namespace fairdraw::statistics
