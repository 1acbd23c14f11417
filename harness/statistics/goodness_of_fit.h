// Compares a table of counts with its target distribution by Pearson's statistic, G, and total
// variation.
#pragma once

#include <cstdint>
#include <span>

#include "harness/statistics/binomial.h"

namespace fairdraw::statistics {

struct GoodnessOfFit {
  double chi_squared = 0;            ///< Pearson's statistic
  double dof = 0;                    ///< cells - 1
  double chi_squared_p_value = 1;    ///< upper tail; valid if expected counts are >= 400
  double chi_squared_too_good = 1;   ///< lower tail; small if counts fit too well
  double g = 0;                      ///< 2 n D(observed || target)
  double g_p_bound = 1;              ///< bound of Agrawal 2019: valid at every n and level
  double total_variation = 0;        ///< distance of observed from target, over the cells
  double total_variation_slack = 0;  ///< a right sampler exceeds this with a rate of at most 1e-6
};

/// Compares counts with a distribution. Both spans have one entry per cell. `probability` is a
/// distribution without zeros, because a token that cannot be drawn is judged exactly and is not a
/// cell. Precondition: the counts have at least one draw. A table of one cell always fits.
GoodnessOfFit goodness_of_fit(std::span<const std::uint64_t> counts,
                              std::span<const double> probability);

/// Returns the distance from `probability` that the empirical distribution of `draws` draws exceeds
/// with a rate of at most `false_fail_rate`. The mean of this distance is at most sum sqrt(p (1 -
/// p) / n) / 2 (Jensen), and one draw changes the distance by at most 1/n, so McDiarmid adds
/// sqrt(ln(1 / rate) / 2n).
double total_variation_slack(std::span<const double> probability, std::uint64_t draws,
                             double false_fail_rate);

/// Returns bounds on the total variation distance between the sampler's true distribution q and the
/// target p over `cells` cells, given the observed distance T. The bounds are wrong with a rate of
/// at most false_coverage_rate, half of this rate on each side. With t = sqrt(ln(2 / rate) / 2n),
/// by McDiarmid (one draw changes T by at most 1/n):
///   - upper: T is convex in the observed distribution, so TV(q, p) <= E T <= T + t;
///   - lower: T <= TV(q, p) + TV(observed, q), and E TV(observed, q) <= sum sqrt(q (1 - q) / n) / 2
///     <= m = sqrt((cells - 1) / n) / 2 for any q, so TV(q, p) >= T - t - m.
Interval total_variation_interval(double observed, std::uint32_t cells, std::uint64_t draws,
                                  double false_coverage_rate);

}  // namespace fairdraw::statistics
