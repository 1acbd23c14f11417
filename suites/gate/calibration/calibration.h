// Self-test of the statistics: their p-values for a correct sampler.
//
// Under the null, a valid p-value is at most a with probability at most a, for every a: it is
// uniform or stochastically larger. Thousands of null runs test this property.
//
// The self-test cannot see p-values that are too small only far below one over the number of runs.
// Proofs and enumerations cover such p-values (harness/statistics/tests/calibration_test.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fairdraw::suites {

/// The reason why a p-value is valid. limit: valid only in the limit of large expected counts, so
/// the p-value may be slightly too small. bet: 1 over the maximum of an e-process.
enum class Validity { exact, bound, limit, bet };
const char* to_string(Validity validity);

struct CalibrationRow {
  std::string statistic;
  Validity validity = Validity::exact;
  std::uint64_t runs = 0;
  double smallest_p = 1;
  double distance = 0;  ///< sup of (empirical distribution function of p) - p, at least 0
  double p_value = 1;   ///< p-value of `distance`: one-sided DKWM, exp(-2 runs distance^2)
  std::optional<std::uint64_t> e_at_least_100;  ///< number of runs of a bet whose largest E reached
                                                ///< 100
  std::optional<double> e_p_value;  ///< exact binomial tail of e_at_least_100 at probability 0.01
  std::uint64_t reds = 0;           ///< number of runs below the level of the gate
  bool passed = false;
};

/// Judges the p-values of null runs. Passes if `distance` and `e_at_least_100` are each within
/// chance at `level`, and no p-value is below `red_level`.
CalibrationRow calibration_row(const std::string& statistic, Validity validity,
                               std::span<const double> p_values, double level, double red_level);

struct CalibrationOptions {
  std::uint64_t runs = 10'000;  ///< per statistic
  std::uint64_t seed = 0;
  unsigned threads = 1;
};

/// False alarm rate of one calibration, divided among all of its comparisons. Null runs below the
/// gate's level add to this rate: a correct harness has one in 1 / (runs * statistics * level of
/// the gate) calibrations.
inline constexpr double kCalibrationFalseAlarmRate = 1e-9;

/// Calibrates every statistic of the gate on multinomial draws or uniform numbers, and every
/// statistical check as a whole on the integer model with fewer draws. The rows depend on the seed,
/// not on `threads`.
std::vector<CalibrationRow> calibrate(const CalibrationOptions& options);

}  // namespace fairdraw::suites
