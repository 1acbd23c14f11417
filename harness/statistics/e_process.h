// Tests by betting, whose evidence may be inspected after every draw.
//
// A bet says that the distribution is q instead of the target p. The evidence of a bet, E, is the
// product of q(x) / p(x) over the draws x. E starts at 1 and has mean 1 under the target at every
// number of draws, for any q; the same holds for a mixture over many q. E is a non-negative
// martingale, so Ville's inequality gives P(sup E >= 1 / level) <= level over all draws ever made.
// Therefore a test may stop as soon as E is large, continue if E is suspicious, and base this
// choice on the draws, without any cost to the error budget. The test is valid at every number of
// draws, every expected count and every level.
//
// A bet cannot certify a sampler, because a value of E near 1 says nothing. The *_min_discrepancy
// functions say which discrepancy would have been found.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fairdraw::statistics {

/// The maximum number of draws of a bet. The logarithm ln E is a difference of terms of up to n
/// ln(n + kappa), each of which is right to a few ulp; at this number of draws that is 2^36 * 64 *
/// 2^-50 = 4e-3 nats.
inline constexpr std::uint64_t kMaxBetDraws = std::uint64_t{1} << 36;

/// Returns ln of Gamma(x + m) / Gamma(x) = x (x + 1) ... (x + m - 1), x > 0, m >= 0. From x = 16 on
/// the function uses Stirling's series, so that the result keeps its digits for a small m and a
/// large x.
double log_rising_factorial(double x, double m);

/// Bets on the whole distribution of a few cells: q ~ Dirichlet(kappa p), with equal weights for
/// the values of kappa on a grid from 30 to 10^6. The larger kappa is, the nearer to p are the
/// distributions q that it bets on. The evidence E of these bets is:
///
///   E = product over cells of (kappa p_i)^(rising c_i) / p_i^(c_i), over kappa^(rising n).
///
/// The mixture pays about (cells - 1) / 2 * ln(1 + n / kappa) for not knowing where the fault is,
/// so at most 100 cells are allowed. The mixture is valid for any distribution and any expected
/// counts.
class DirichletMixture {
 public:
  static constexpr std::size_t kMaxCells = 100;

  /// Makes bets against `probability`, the target distribution [cells], which must have no zeros.
  explicit DirichletMixture(std::span<const double> probability);

  /// Adds draws, given as counts per cell [cells]; at most kMaxBetDraws draws in all.
  void add(std::span<const std::uint64_t> counts);

  std::uint64_t draws() const { return draws_; }
  double log_e() const { return log_e_; }
  /// Returns the largest value that ln E had after any add().
  double max_log_e() const { return max_log_e_; }

 private:
  std::vector<double> probability_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t draws_ = 0;
  double log_e_ = 0, max_log_e_ = 0;
};

/// Returns the total variation distance between the true distribution q and the target p over the
/// cells that the mixture finds with miss probability at most false_pass_rate, if ln E >= `needed`
/// counts as found after `draws` draws (`needed` is ln(1 / level) plus the cost of the mixture's
/// own weight). The proof is for one kappa of the grid, N = n + kappa, and the mean
/// r = (c + kappa p) / N. Stirling's formula, whose remainder lies between 0 and 1 / 12x, gives a
/// bound:
///
///   ln E >= N D(r || p) - 1/2 sum ln(r_i / p_i) - (k - 1) / 2 ln(1 + n / kappa)
///           - sum 1 / (12 kappa p_i).
///
/// Here N D = sum N p_i h(r_i / p_i - 1) with h(t) = (1 + t) ln(1 + t) - t. For every t > -1 and
/// a > 0, a h(t) - ln(1 + t) / 2 >= -1 / (4 a) (at the minimum u ln u = 1 / 2a with u = 1 + t, so
/// a (u - 1) <= 1 / 2 and ln u <= 1 / 2a). So a share s of N D covers the second term, up to
/// sum 1 / (4 s N p_i). The rest of N D is at least 2 N (1 - s) TV(r, p)^2 (Pinsker). TV(r, p) is
/// n / N times the observed distance, and McDiarmid bounds the observed distance from below by
/// TV(q, p) - sqrt(ln(1 / false_pass_rate) / 2n). The bound is computed with the kappa and the s
/// that give the smallest result. A result above 1 means that the draws find no distance at all.
double dirichlet_min_discrepancy(std::uint64_t draws, std::span<const double> probability,
                                 double needed, double false_pass_rate);

/// Returns ln of the weighted mean of e-values, given their logarithms; the weights are >= 0 and
/// sum to 1. The mean is an e-value under any dependence (Vovk and Wang 2021: no other symmetric
/// rule is, up to mixing with 1).
double mean_log_e(std::span<const double> log_e, std::span<const double> weights);
/// Returns ln of the product of e-values that are independent, or each of which is based on later
/// draws than the ones before.
double product_log_e(std::span<const double> log_e);
/// Returns the p-value min(1, 1 / E), which is valid by Markov's inequality, and for the maximum
/// over time by Ville's.
double e_to_p_value(double log_e);

/// Returns the number of nats to subtract from ln E for a target that is known only to within
/// rounding: a right sampler's probability of a cell is within a factor 1 +- relative_error of the
/// target's. The probability that a right sampler gains more than this payment from rounding, at
/// any time in up to `draws` draws, is at most `rate`.
///
/// If p' is the sampler's distribution, ln E = ln E' + L, where E' bets against p' itself and is a
/// martingale of mean 1, and L = sum ln(p'(x) / p(x)). With p' = p (1 + e), |e| <= d < 1, sum p e =
/// 0 and any lambda >= 1, the mean of (p'(x) / p(x))^lambda under p' is sum p (1 + e)^(1 + lambda),
/// at least 1 (Jensen) and at most 1 + lambda (1 + lambda) / 2 * chi^2 (1 + d)^lambda with chi^2 =
/// sum p e^2 (Taylor). So exp(lambda L) is a submartingale whose mean after n draws is at most the
/// n-th power of this bound, and Doob's inequality bounds its maximum. The payment uses the best
/// value of lambda on a grid. For d = 10^-6 and n = 10^7 the payment is 0.03 nats, while the simple
/// payment n ln(1 + d) is 10 nats. `chi_squared` is an upper bound on sum p e^2, at most d^2.
/// Returns infinity if d >= 1.
double distribution_error_payment(double relative_error, double chi_squared, std::uint64_t draws,
                                  double rate);

}  // namespace fairdraw::statistics
