// Sound statistics of a gate: tests with finite-sample bounds, their power, and the error ledger.
//
// Naming: operation, property, relation, bound. Rates are totals, not per draw. Every test has a
// twin that says, before any draw is made, what it will find.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fairdraw::statistics {

// --- Exact tests -------------------------------------------------------------------------------

/// P(|K - np| side at least as extreme), doubled one-sided exact tail, K ~ Binomial(trials, p).
/// 0 or 1 outcomes with p = 0 or 1 are handled exactly. At most 1.
double binomial_p_value(std::uint64_t successes, std::uint64_t trials, double probability);

/// Distance |q - p| of a success probability that `trials` draws find with miss probability
/// false_pass_rate when binomial_p_value is compared with false_fail_rate.
double binomial_min_discrepancy(std::uint64_t trials, double probability, double false_fail_rate,
                                double false_pass_rate);

// --- Dvoretzky-Kiefer-Wolfowitz-Massart: sup distance of distribution functions ------------------

/// min(1, 2 exp(-2 n D^2)). Sound for atoms too (conservative).
double dkwm_p_value(double distance, std::uint64_t draws);
double dkwm_min_discrepancy(std::uint64_t draws, double false_fail_rate, double false_pass_rate);
std::uint64_t dkwm_min_num_samples(double discrepancy, double false_fail_rate,
                                   double false_pass_rate);
/// Sup distance between the empirical distribution function of counts and the target's, cells in
/// the given order. Both spans have one entry a cell.
double cdf_distance(std::span<const std::uint64_t> counts, std::span<const double> probability);
/// Sup distance of values in [0, 1] from the uniform law. Sorts a copy.
double uniform_distance(std::span<const double> values);

// --- Pearson's chi-squared and G over pooled cells -----------------------------------------------

/// Cells that were merged by a rule on the target alone, never on counts.
struct Pooling {
  std::vector<std::uint32_t> cell_of;    ///< [vocab] cell of each token; kNoCell for probability 0
  std::vector<double> probability;       ///< [cells], sums to 1
  double smallest_expected = 0;          ///< over the cells, for the number of draws given
};
inline constexpr std::uint32_t kNoCell = 0xffffffffU;

/// Sorts tokens by probability, largest first (ties by id), and closes a cell when its expected
/// count reaches `min_expected`; the rest joins the last cell. At most `max_cells` (0: no limit).
Pooling pool_by_probability(std::span<const double> probability, std::uint64_t draws,
                            double min_expected, std::uint32_t max_cells = 0);

struct GoodnessOfFit {
  double chi_squared = 0;
  double dof = 0;
  double chi_squared_p_value = 1;  ///< upper tail; valid at small levels only where expected >= 400
  double g = 0;                    ///< 2 n D(observed || target)
  double g_p_bound = 1;            ///< Agrawal 2019: sound at every n and level
  double total_variation = 0;      ///< observed against target, over the cells
  double total_variation_slack = 0; ///< what sampling noise alone reaches (1 - false_fail 1e-6)
};
GoodnessOfFit goodness_of_fit(std::span<const std::uint64_t> counts,
                              std::span<const double> probability);

double chi_squared_upper_tail(double statistic, double dof);
/// Bound on P(G >= g) for `cells` cells: exp(-nD) (e nD / (cells - 1))^(cells - 1), D = g / 2n.
double g_upper_bound(double g, std::uint32_t cells);

/// Total variation between the pooled laws that `draws` draws find with miss probability
/// false_pass_rate at level false_fail_rate (non-central chi-squared, phi^2 >= 4 TV^2).
double chi_squared_min_discrepancy(std::uint64_t draws, double dof, double false_fail_rate,
                                   double false_pass_rate);
std::uint64_t chi_squared_min_num_samples(double discrepancy, double dof, double false_fail_rate,
                                          double false_pass_rate);
/// The same for G compared through g_upper_bound (larger critical value).
double g_min_discrepancy(std::uint64_t draws, std::uint32_t cells, double false_fail_rate,
                         double false_pass_rate);
std::uint64_t g_min_num_samples(double discrepancy, std::uint32_t cells, double false_fail_rate,
                                double false_pass_rate);

// --- The error ledger ----------------------------------------------------------------------------

/// Shares out a run's false alarm rate. 5e-10 over the cases, equally; 2e-10 for the global test;
/// 3e-10 kept for the rest.
class ErrorLedger {
 public:
  static constexpr double kRunFalseAlarmRate = 1e-9;
  static constexpr double kCasesShare = 5e-10;
  static constexpr double kGlobalShare = 2e-10;
  static constexpr double kReserve = 3e-10;

  /// `statistical_cases`: how many cases of the WHOLE run (all shards) make statistical checks.
  explicit ErrorLedger(std::uint64_t statistical_cases);

  /// What one case may spend in all; it divides it over its statistics, orderings and tails.
  double case_share() const;
  /// Books what a check was compared with. Throws std::logic_error when the budget is overdrawn.
  void spend(double false_fail_rate);
  double spent() const;

 private:
  double case_share_;
  double spent_ = 0;
};

}  // namespace fairdraw::statistics
