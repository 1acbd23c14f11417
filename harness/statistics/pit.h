// Computes the randomised probability integral transform (PIT), which maps draws from different
// rows to one uniform distribution.
//
// If token x is drawn from a row's distribution F, and v is uniform and independent of x, then u =
// F(x - 1) + v p(x) is uniform on (0, 1) for any row. So a stream of real logits in which no row
// repeats can be tested for its distribution and its independence without pooling. The transform
// cannot detect errors that swap tokens which are neighbours in the order of the prefix sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fairdraw::statistics {

/// Returns inclusive prefix sums [vocab] of weights; the sums never decrease, and each is right to
/// two ulp of the total. Precondition: the weights are finite and >= 0, and at least one is above
/// 0; they need not add up to 1. To test in another order than that of token ids, reorder the
/// weights first.
std::vector<double> prefix_sums(std::span<const double> weights);

/// Returns u for `token` under the distribution with inclusive prefix sums `prefix` [vocab],
/// divided by the last entry. The value v is (top 52 bits of random_word + 1/2) * 2^-52, so v is
/// never 0 or 1. Precondition: the sampler did not use this random word. Throws an exception if
/// `token` is outside [0, vocab), the prefix sums decrease at this token, or the last prefix sum is
/// not positive.
double randomized_pit(std::span<const double> prefix, std::int64_t token,
                      std::uint64_t random_word);
/// Returns u for integer weights, whose prefix sums are exact.
double randomized_pit(std::span<const std::uint64_t> prefix, std::int64_t token,
                      std::uint64_t random_word);

// --- Tests of a stream of u, iid uniform under the null ------------------------------------------

/// Tests whether values have the uniform distribution, by the bound DKWM.
double uniformity_p_value(std::span<const double> values);

/// Tests how many of the n - lag pairs (u_i, u_{i + lag}) are on the same side of 1/2; the test is
/// exact. Products of fair signs at a fixed lag are fair and independent (each new sign flips the
/// product or not), so the number is Binomial(n - lag, 1/2). A Gaussian correlation r gives equal
/// sides with probability 1/2 + asin(r) / pi. Precondition: lag in [1, n - 1].
double lag_agreement_p_value(std::span<const double> values, std::size_t lag);

/// Tests the correlation of the normal scores z = Phi^-1(u) at a lag. The test is valid at every n
/// and level, and is 2.5 times as sensitive as the test of agreement. S = sum z_i z_{i + lag}, V =
/// sum z_i^2. Proof: given the past, the next term of S is N(0, z_i^2), so exp(s S - s^2 V / 2) has
/// mean 1 for every s. Averaged over s ~ N(0, 1/a), E = sqrt(a / (a + V)) exp(S^2 / (2 (a + V)))
/// has mean 1, so 1/E is a p-value (Markov). The choice a = n / 64 costs 1/64 of the exponent and
/// ln(65) / 2 = 2.1 nats.
double lag_correlation_p_value(std::span<const double> values, std::size_t lag);

/// Make the same tests for two streams, such as those of two rows or two requests, which must be
/// independent of each other. Given one stream, S / sqrt(V) is exactly N(0, 1), so no e-value is
/// needed. Precondition: equal sizes.
double pair_agreement_p_value(std::span<const double> first, std::span<const double> second);
double pair_correlation_p_value(std::span<const double> first, std::span<const double> second);

/// Counts disjoint pairs (u_i, u_{i + lag}) in bins x bins cells; rows of the table belong to the
/// first value. Under the null hypothesis, the pairs are independent and uniform over the cells, as
/// goodness_of_fit requires. The counts show dependence even if the values are not correlated. The
/// number `bins` is in [2, 1024]; values after the last whole block of 2 lag values are not used.
std::vector<std::uint64_t> pair_counts(std::span<const double> values, std::size_t lag,
                                       std::uint32_t bins);
/// Counts the pairs (first_i, second_i) of two streams of equal size in the same way.
std::vector<std::uint64_t> pair_counts(std::span<const double> first,
                                       std::span<const double> second, std::uint32_t bins);

}  // namespace fairdraw::statistics
