// Collects evidence over a sequence of runs (nightly runs of the same gate), each of which has its
// own random words.
//
// Under the null hypothesis each nightly run gives an e-value: a number >= 0 whose mean, given all
// earlier runs, is at most 1. A bet that starts at run s and continues on the next runs has the
// value e_s e_(s+1) ... e_T, which is a supermartingale. If one bet starts at each run, with
// weights w_s >= 0 that sum to 1, the sum of these bets and of the weight that has not been bet yet
// is a supermartingale, too:
//
//   M_T = (1 - sum over s <= T of w_s) + sum over s <= T of w_s e_s e_(s+1) ... e_T,   M_0 = 1.
//
// Ville's inequality gives P(some M_T >= 1 / level) <= level over all future runs, for any number
// of runs and at any time. The weights are w_s = 1 / (s (s + 1)). Therefore the runs before a bug
// cost at most ln(s (s + 1)), which is 11 nats after 300 runs; a single bet from the first run on
// would have lost everything by then.
//
// If runs store their counts, the bets of a run may use the counts of earlier runs. Then e_s ...
// e_T is the closed form of one mixture, at the sum of the counts of runs s to T. This mixture
// finds a bias far below the smallest one that a single run finds. A product of e-values that each
// start afresh does not find such a bias, because each e-value pays again for not knowing where the
// fault is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fairdraw::statistics {

/// Returns ln of an e-value of a valid p-value: the mean of kappa p^(kappa - 1) over kappa in (0,
/// 1), which is (1 - p + p ln p) / (p (ln p)^2) (Vovk and Wang 2021). The p-value is in [0, 1];
/// below 10^-300 the result is that of 10^-300. The e-value of p = 1 is 1/2.
double p_to_log_e(double p_value);

/// Returns ln M_T of the last run, given ln e of each run; at least one run is needed.
double log_e_of_nights(std::span<const double> log_e);

/// The counts of each run over cells, for a target distribution that is known only to within
/// rounding.
struct CellsOfNights {
  std::vector<double> probability;                   ///< [cells], without zeros
  std::vector<std::vector<std::uint64_t>> counts;    ///< [nights][cells]
  double relative_error = 0, chi_squared_error = 0;  ///< see distribution_error_payment()
};

/// Returns ln M_T for bets by DirichletMixture. The function subtracts distribution_error_payment()
/// from the product of runs s to T, at a rate of w_s w_T times `rate`; these rates add up to `rate`
/// over all starts of all runs. Precondition: at most kMaxBetDraws draws in all runs together.
double log_e_of_nights(const CellsOfNights& nights, double rate);

/// Returns the total variation distance over the cells that bets from the first run on find with
/// miss probability at most false_pass_rate, if ln M_T >= needed counts as found.
double nights_min_discrepancy(const CellsOfNights& nights, double rate, double needed,
                              double false_pass_rate);

}  // namespace fairdraw::statistics
