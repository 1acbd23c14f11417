// Tests the statistics themselves: their p-values for a correct sampler.
//
// If the sampler is correct, a valid p-value is at most a with probability at most a, for every a:
// it is uniform or stochastically larger. Thousands of null runs test this property.
//
// This test cannot detect p-values that are too small only far below one over the number of runs.
// Proofs and enumerations cover such p-values (harness/statistics/tests/calibration_test.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fairdraw::suites {

/// The reason why a p-value is valid. limit: it is valid only in the limit of large expected
/// counts, so that it may be slightly too small. bet: it is 1 over the maximum of an e-process.
enum class Validity { exact, bound, limit, bet };
const char* to_string(Validity validity);

struct CalibrationRow {
  std::string statistic;
  Validity validity = Validity::exact;
  std::uint64_t runs = 0;
  double smallest_p = 1;
  double distance = 0;  ///< supremum of (empirical distribution function of p) - p, at least 0
  double p_value = 1;   ///< p-value of `distance` by the one-sided DKWM bound, exp(-2 runs
                        ///< distance^2)
  std::optional<std::uint64_t> e_at_least_100;  ///< number of runs of a bet in which the largest E
                                                ///< reached 100
  std::optional<double> e_p_value;  ///< exact binomial tail probability of e_at_least_100, for a
                                    ///< probability of 0.01 per run
  std::uint64_t reds = 0;           ///< number of runs below the level of a case of the gate
  bool passed = false;
};

/// Returns the judgement of the p-values of null runs. The row passes if `distance` and
/// `e_at_least_100` can each be explained by chance at `level`, and no p-value is below
/// `red_level`.
CalibrationRow calibration_row(const std::string& statistic, Validity validity,
                               std::span<const double> p_values, double level, double red_level);

struct CalibrationOptions {
  std::uint64_t runs = 10'000;  ///< per statistic
  std::uint64_t seed = 0;
  unsigned threads = 1;
};

/// False alarm rate of one calibration, which is divided among all of its comparisons. Null runs
/// below the gate's level add to this rate: with a correct harness, there is such a run in one of 1
/// / (runs * statistics * level of the gate) calibrations.
inline constexpr double kCalibrationFalseAlarmRate = 1e-9;

/// Calibrates every statistic of the gate on multinomial draws or uniform numbers, and every
/// statistical check as a whole on the integer model, with fewer draws. The result depends on the
/// seed, not on `threads`.
std::vector<CalibrationRow> calibrate(const CalibrationOptions& options);

}  // namespace fairdraw::suites
