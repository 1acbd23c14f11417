// Tests by betting: evidence that may be inspected after every draw.
//
// A bet is a distribution q that is put against the target p. Its wealth E, the product of q(x) /
// p(x) over the draws x, starts at 1 and has mean 1 under the target at every number of draws,
// whatever q is; so has a mixture over many q. It is a non-negative martingale, and by Ville's
// inequality P(sup E >= 1 / level) <= level over all draws ever made. So a test may stop as soon as
// it knows, go on where it suspects, and choose by what it saw whether to: no rule of that kind
// costs any of the error budget. Every number of draws, every expected count, every level: sound.
//
// What it cannot do is to certify: E near 1 says nothing. That is what *_min_discrepancy is for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fairdraw::statistics {

/// Most draws of a bet. ln E is a difference of terms of up to n ln(n + kappa), each right to a
/// few ulp: here to 2^36 * 64 * 2^-50 = 4e-3 nats.
inline constexpr std::uint64_t kMaxBetDraws = std::uint64_t{1} << 36;

/// ln of Gamma(x + m) / Gamma(x) = x (x + 1) ... (x + m - 1), x > 0, m >= 0. From x = 16 on by
/// Stirling's series, so that a small m on a large x keeps its digits.
double log_rising_factorial(double x, double m);

/// Bets on the whole distribution of a few cells: q ~ Dirichlet(kappa p), kappa over a grid from 30
/// to 10^6 with equal weights; the larger kappa, the nearer to p are the q that it bets on. Closed
/// form:
///   E = product over cells of (kappa p_i)^(rising c_i) / p_i^(c_i), over kappa^(rising n).
/// Pays about (cells - 1) / 2 * ln(1 + n / kappa) for not knowing where the fault is: at most 100
/// cells. Any distribution, no expected count.
class DirichletMixture {
 public:
  static constexpr std::size_t kMaxCells = 100;

  /// `probability`: the target [cells], a distribution without zeros.
  explicit DirichletMixture(std::span<const double> probability);

  /// More draws, by cell [cells]. Together at most kMaxBetDraws.
  void add(std::span<const std::uint64_t> counts);

  std::uint64_t draws() const { return draws_; }
  double log_e() const { return log_e_; }
  /// The largest of the values so far, one after each add().
  double max_log_e() const { return max_log_e_; }

 private:
  std::vector<double> probability_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t draws_ = 0;
  double log_e_ = 0, max_log_e_ = 0;
};

/// Total variation between truth q and target p over the cells that the mixture finds with miss
/// probability at most false_pass_rate: at `draws` draws ln E >= `needed` (ln(1 / level), and what
/// the mixture's own weight costs). Proof, for one kappa of the grid, N = n + kappa, and the mean
/// r = (c + kappa p) / N: Stirling's formula, whose remainder lies between 0 and 1 / 12x, gives
///   ln E >= N D(r || p) - 1/2 sum ln(r_i / p_i) - (k - 1) / 2 ln(1 + n / kappa)
///           - sum 1 / (12 kappa p_i).
/// N D = sum N p_i h(r_i / p_i - 1) with h(t) = (1 + t) ln(1 + t) - t, and a h(t) - ln(1 + t) / 2
/// >= -1 / (4 a) for every t > -1, a > 0 (at the minimum u ln u = 1 / 2a with u = 1 + t, so
/// a (u - 1) <= 1 / 2 and ln u <= 1 / 2a). So a share s of N D pays for the second term, up to
/// sum 1 / (4 s N p_i); the rest is at least 2 N (1 - s) TV(r, p)^2 (Pinsker), and TV(r, p) is
/// n / N times the observed distance, which McDiarmid puts within sqrt(ln(1 / false_pass_rate) /
/// 2n) of TV(q, p) from below. The best kappa and s are taken. Above 1: nothing is found.
double dirichlet_min_discrepancy(std::uint64_t draws, std::span<const double> probability,
                                 double needed, double false_pass_rate);

/// ln of the mean of e-values, weights >= 0 with sum 1, from their logarithms: an e-value under any
/// dependence (Vovk and Wang 2021: the only symmetric rule, up to mixing with 1).
double mean_log_e(std::span<const double> log_e, std::span<const double> weights);
/// ln of the product: for independent e-values, or ones on later draws.
double product_log_e(std::span<const double> log_e);
/// min(1, 1 / E): Markov, and with the maximum over time Ville.
double e_to_p_value(double log_e);

/// A target that is known to within rounding: a right sampler's probability of a cell lies within
/// a factor 1 +- relative_error of the target's. What ln E may gain from that, in nats, in up to
/// `draws` draws; more at any time with probability at most `rate`. To be taken off ln E.
///
/// With p' the sampler's distribution, ln E = ln E' + L: E' bets against p' itself and is a
/// martingale of mean 1, and L = sum ln(p'(x) / p(x)). With p' = p (1 + e), |e| <= d < 1, sum p e =
/// 0 and any lambda >= 1, the mean of (p'(x) / p(x))^lambda under p' is sum p (1 + e)^(1 + lambda),
/// at least 1 (Jensen) and at most 1 + lambda (1 + lambda) / 2 * chi^2 (1 + d)^lambda with chi^2 =
/// sum p e^2 (Taylor). So exp(lambda L) is a submartingale whose mean after n draws is at most
/// the n-th power of that, and Doob's inequality bounds its maximum; the best lambda of a grid is
/// taken. This is 0.03 nats where the plain payment n ln(1 + d) is 10 (d = 10^-6, n = 10^7).
/// `chi_squared`: a bound on sum p e^2, at most d^2. Infinity where d >= 1.
double distribution_error_payment(double relative_error, double chi_squared, std::uint64_t draws,
                                  double rate);

}  // namespace fairdraw::statistics
