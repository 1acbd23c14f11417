// The test by G with a finite-sample bound, which decides about fixed cells.
//
// The test is valid at every number of draws, number of cells, level and expected count. Both error
// rates of the test are proven for every number of draws, not only in the limit. The price of the
// proof is a critical value that is 1.3 (2 cells) to 1.9 (1000 cells) times that of chi-squared.
#pragma once

#include <cstdint>

namespace fairdraw::statistics {

/// Bounds P(G >= g) for `cells` cells, where G = 2 n D(observed || target) with any n and any
/// target. The bound is exp(-a) (e a / m)^m with a = g / 2 and m = cells - 1; it is 1 if a <= m,
/// and for one cell. The bound is that of Agrawal, Finite-sample concentration of the multinomial
/// in relative entropy, arXiv 1904.02291.
double g_upper_bound(double g, std::uint32_t cells);

/// Returns the statistic at which g_upper_bound reaches false_fail_rate. Precondition: cells >= 2.
double g_critical_value(std::uint32_t cells, double false_fail_rate);

/// Returns the total variation distance between the true distribution q and the target p over the
/// cells that `draws` draws find with miss probability at most false_pass_rate. Proof: D >= 2
/// TV(observed, p)^2 (Pinsker), so G rejects once TV(observed, p) >= sqrt(g* / 4n), where g* is the
/// critical value. TV(observed, p) is convex in the observed distribution, so its mean is at least
/// TV(q, p). One draw changes TV(observed, p) by at most 1/n, so it is below its mean by t with
/// probability at most exp(-2 n t^2) (McDiarmid). Together these give the distance TV = sqrt(g* /
/// 4n) + sqrt(ln(1 / false_pass_rate) / 2n). A result above 1 means that the draws find no distance
/// at all.
double g_min_discrepancy(std::uint64_t draws, std::uint32_t cells, double false_fail_rate,
                         double false_pass_rate);
std::uint64_t g_min_num_samples(double discrepancy, std::uint32_t cells, double false_fail_rate,
                                double false_pass_rate);

}  // namespace fairdraw::statistics
