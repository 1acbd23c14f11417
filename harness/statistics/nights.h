// Evidence over a sequence of runs (nightly runs of the same gate), each with its own random words.
//
// Under the null each nightly run gives an e-value: a number >= 0 whose mean, given all runs
// before, is at most 1. Money that is bet on run s and kept in play on the next ones, e_s e_(s+1)
// ... e_T, is a supermartingale. So is a sum of such bets, one starting at each run, with weights
// w_s >= 0 that add up to 1, if the money that has not been bet yet is kept aside:
//
//   M_T = (1 - sum over s <= T of w_s) + sum over s <= T of w_s e_s e_(s+1) ... e_T,   M_0 = 1.
//
// Ville's inequality gives P(some M_T >= 1 / level) <= level over all future runs, for any number
// of runs and at any time. The weights are w_s = 1 / (s (s + 1)). Runs before a bug therefore cost
// at most ln(s (s + 1)), 11 nats after 300 of them; a single bet from the first run on would have
// lost everything by then.
//
// If runs leave their counts, the bets of a run may use the counts of earlier runs. Then e_s ...
// e_T is the closed form of one mixture at the counts of runs s to T together. This mixture shows a
// bias far below what one run finds. A product of e-values that each start afresh does not show it,
// because each of them pays again for not knowing where the fault is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fairdraw::statistics {

/// Returns ln of an e-value of a valid p-value: the mean of kappa p^(kappa - 1) over kappa in (0,
/// 1), which is (1 - p + p ln p) / (p (ln p)^2) (Vovk and Wang 2021). p is in [0, 1]; below 10^-300
/// the result is that of 10^-300. At p = 1 the e-value of p is 1/2.
double p_to_log_e(double p_value);

/// Returns ln M_T of the last run, from ln e of each run; at least one.
double log_e_of_nights(std::span<const double> log_e);

/// Counts of each run over cells, for a target that is known only to within rounding.
struct CellsOfNights {
  std::vector<double> probability;                   ///< [cells], without zeros
  std::vector<std::vector<std::uint64_t>> counts;    ///< [nights][cells]
  double relative_error = 0, chi_squared_error = 0;  ///< as in distribution_error_payment()
};

/// Returns ln M_T with DirichletMixture as the bets. The function subtracts
/// distribution_error_payment() from the product of runs s to T, at a rate of w_s w_T times `rate`;
/// these rates add up to `rate` over all starts of all runs. Precondition: at most kMaxBetDraws
/// draws in all runs together.
double log_e_of_nights(const CellsOfNights& nights, double rate);

/// Returns the total variation over the cells that bets from the first run on find with miss
/// probability at most false_pass_rate, if ln M_T >= needed counts as found.
double nights_min_discrepancy(const CellsOfNights& nights, double rate, double needed,
                              double false_pass_rate);

}  // namespace fairdraw::statistics
