// The randomised probability integral transform (PIT): it maps draws from rows that all differ to
// one uniform distribution.
//
// If token x is drawn from a row's distribution F and v is uniform and independent, u = F(x - 1) +
// v p(x) is uniform on (0, 1) for any row. So a stream of real logits that never repeat can be
// tested for its distribution and its independence without pooling. The transform cannot see errors
// that swap tokens which are neighbours in the order of the prefix sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fairdraw::statistics {

/// Returns inclusive prefix sums [vocab] of weights, non-decreasing, each right to two ulp of the
/// total. Precondition: weights are finite and at least 0, with one of them above 0; they need not
/// add up to 1. Reorder the weights first to test in another order than that of token ids.
std::vector<double> prefix_sums(std::span<const double> weights);

/// Returns u for `token` under the distribution with inclusive prefix sums `prefix` [vocab],
/// divided by the last entry. v = (top 52 bits of random_word + 1/2) * 2^-52, so it is never 0
/// or 1. Precondition: the sampler did not use this random word. Throws if `token` is outside [0,
/// vocab), the prefix sums descend at it, or their last entry is not positive.
double randomized_pit(std::span<const double> prefix, std::int64_t token,
                      std::uint64_t random_word);
/// Does the same for integer weights, whose prefix sums are exact.
double randomized_pit(std::span<const std::uint64_t> prefix, std::int64_t token,
                      std::uint64_t random_word);

// --- Tests of a stream of u, iid uniform under the null ------------------------------------------

/// Tests whether values have the uniform distribution, by DKWM.
double uniformity_p_value(std::span<const double> values);

/// Tests exactly the number of the n - lag pairs (u_i, u_{i + lag}) that are on the same side of
/// 1/2. Products of fair signs at a fixed lag are fair and independent (each next sign flips the
/// product or not), so the number is Binomial(n - lag, 1/2). A Gaussian correlation r makes the
/// probability of equal sides 1/2 + asin(r) / pi. Precondition: lag in [1, n - 1].
double lag_agreement_p_value(std::span<const double> values, std::size_t lag);

/// Tests the correlation of normal scores z = Phi^-1(u) at a lag. The test is valid at every n and
/// level, and 2.5 times as sensitive as agreement. S = sum z_i z_{i + lag}, V = sum z_i^2. Proof:
/// given the past, the next term of S is N(0, z_i^2), so exp(s S - s^2 V / 2) has mean 1 for every
/// s. Averaged over s ~ N(0, 1/a), E = sqrt(a / (a + V)) exp(S^2 / (2 (a + V))) has mean 1, and 1/E
/// is a p-value (Markov). a = n / 64 costs 1/64 of the exponent and ln(65) / 2 = 2.1 nats.
double lag_correlation_p_value(std::span<const double> values, std::size_t lag);

/// Make these tests for two streams that must be independent of each other (two rows, two
/// requests). Given one stream, S / sqrt(V) is exactly N(0, 1), so no e-value is needed.
/// Precondition: equal sizes.
double pair_agreement_p_value(std::span<const double> first, std::span<const double> second);
double pair_correlation_p_value(std::span<const double> first, std::span<const double> second);

/// Counts disjoint pairs (u_i, u_{i + lag}) in bins x bins cells, row-major in the first value.
/// Under the null, pairs are iid uniform over the cells, as goodness_of_fit requires. The counts
/// show dependence without correlation. bins is in [2, 1024]; values after the last whole block of
/// 2 lag are unused.
std::vector<std::uint64_t> pair_counts(std::span<const double> values, std::size_t lag,
                                       std::uint32_t bins);
/// Counts the pairs (first_i, second_i) of two streams of equal size in the same way.
std::vector<std::uint64_t> pair_counts(std::span<const double> first,
                                       std::span<const double> second, std::uint32_t bins);

}  // namespace fairdraw::statistics
