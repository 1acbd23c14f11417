// Evidence over a sequence of runs, each with random words of its own: nights of the same gate.
//
// Under the null each night gives an e-value: a number >= 0 whose mean, given all nights before, is
// at most 1. Money that is bet on one night and kept on the next ones, e_s e_(s+1) ... e_T, is a
// supermartingale. So is a sum of such bets with one starting each night, weights w_s >= 0 that add
// up to 1, and what has not been bet yet kept aside:
//
//   M_T = (1 - sum over s <= T of w_s) + sum over s <= T of w_s e_s e_(s+1) ... e_T,   M_0 = 1.
//
// By Ville's inequality P(some M_T >= 1 / level) <= level over all nights that will ever be,
// however many and whenever somebody looks. w_s = 1 / (s (s + 1)): nights before a bug came cost it
// no more than ln(s (s + 1)), 11 nats after 300 of them, where one bet from the first night on
// would have lost all by then.
//
// Where nights leave counts, the bets of a night may know the counts of those before it. Then
// e_s ... e_T is the closed form of one mixture at the counts of nights s to T together: a bias far
// below what a night finds shows in them, and in no product of e-values that each start afresh,
// because each of those pays again for not knowing where the fault is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fairdraw::statistics {

/// An e-value of a valid p-value, as ln: the mean of kappa p^(kappa - 1) over kappa in (0, 1),
/// which is (1 - p + p ln p) / (p (ln p)^2) (Vovk and Wang 2021). p in [0, 1]; below 10^-300 the
/// value there. At p = 1: 1/2.
double p_to_log_e(double p_value);

/// ln M_T of the last of the nights, from ln e of each; at least one.
double log_e_of_nights(std::span<const double> log_e);

/// Counts over cells, of a target that is known to within rounding.
struct CellsOfNights {
  std::vector<double> probability;                   ///< [cells], without zeros
  std::vector<std::vector<std::uint64_t>> counts;    ///< [nights][cells]
  double relative_error = 0, chi_squared_error = 0;  ///< as distribution_error_payment() has them
};

/// ln M_T with DirichletMixture as the bets. From the product of nights s to T it takes off
/// distribution_error_payment() at w_s w_T of `rate`, which adds up to `rate` over all starts of
/// all nights. At most kMaxBetDraws draws together.
double log_e_of_nights(const CellsOfNights& nights, double rate);

/// Total variation over the cells that bets from the first of the nights on find with miss
/// probability at most false_pass_rate, where ln M_T >= needed is red.
double nights_min_discrepancy(const CellsOfNights& nights, double rate, double needed,
                              double false_pass_rate);

}  // namespace fairdraw::statistics
