// Evidence over a sequence of runs (nights of the same gate), each with its own random words.
//
// Under the null each night gives an e-value: a number >= 0 whose mean, given all nights before, is
// at most 1. Money that is bet on night s and kept in play on the next ones, e_s e_(s+1) ... e_T,
// is a supermartingale. So is a sum of such bets, one starting each night, with weights w_s >= 0
// that add up to 1, if the money that has not been bet yet is kept aside:
//
//   M_T = (1 - sum over s <= T of w_s) + sum over s <= T of w_s e_s e_(s+1) ... e_T,   M_0 = 1.
//
// By Ville's inequality P(some M_T >= 1 / level) <= level over all future nights, however many
// there are and whenever somebody looks. The weights are w_s = 1 / (s (s + 1)). Nights before a bug
// therefore cost at most ln(s (s + 1)), 11 nats after 300 of them; a single bet from the first
// night on would have lost everything by then.
//
// If nights leave their counts, the bets of a night may use the counts of earlier nights. Then e_s
// ... e_T is the closed form of one mixture at the counts of nights s to T together. It shows a
// bias far below what one night finds. A product of e-values that each start afresh does not,
// because each of them pays again for not knowing where the fault is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fairdraw::statistics {

/// Returns ln of an e-value of a valid p-value: the mean of kappa p^(kappa - 1) over kappa in (0,
/// 1), which is (1 - p + p ln p) / (p (ln p)^2) (Vovk and Wang 2021). p is in [0, 1]; below 10^-300
/// the result is that of 10^-300. At p = 1 the e-value is 1/2.
double p_to_log_e(double p_value);

/// Returns ln M_T of the last night, from ln e of each night; at least one.
double log_e_of_nights(std::span<const double> log_e);

/// Counts over cells, for a target that is known only to within rounding.
struct CellsOfNights {
  std::vector<double> probability;                   ///< [cells], without zeros
  std::vector<std::vector<std::uint64_t>> counts;    ///< [nights][cells]
  double relative_error = 0, chi_squared_error = 0;  ///< as in distribution_error_payment()
};

/// Returns ln M_T with DirichletMixture as the bets. It takes distribution_error_payment() off the
/// product of nights s to T, at a rate of w_s w_T times `rate`; these add up to `rate` over all
/// starts of all nights. At most kMaxBetDraws draws in all.
double log_e_of_nights(const CellsOfNights& nights, double rate);

/// Returns the total variation over the cells that bets from the first night on find with miss
/// probability at most false_pass_rate, if ln M_T >= needed counts as found.
double nights_min_discrepancy(const CellsOfNights& nights, double rate, double needed,
                              double false_pass_rate);

}  // namespace fairdraw::statistics
