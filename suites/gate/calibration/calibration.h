// Self-test of the statistics: what they say of a sampler that is right.
//
// Under the null a valid p-value is at most a with probability at most a, whatever a is: it is
// uniform, or stochastically larger. Thousands of null runs show whether that is so, and the answer
// is a test itself.
//
// What it cannot see: p-values that are too small only far below one over the number of runs. For
// those there are proofs and enumerations (harness/statistics/tests/calibration_test.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fairdraw::suites {

/// Why a p-value is valid. limit: in the limit of large expected counts, so it may be slightly too
/// small; bet: 1 over the largest of an e-process.
enum class Validity { exact, bound, limit, bet };
const char* to_string(Validity validity);

struct CalibrationRow {
  std::string statistic;
  Validity validity = Validity::exact;
  std::uint64_t runs = 0;
  double smallest_p = 1;
  double distance = 0;  ///< sup of (empirical distribution function of p) - p, at least 0
  double p_value = 1;   ///< of that distance: one-sided DKWM, exp(-2 runs distance^2)
  std::optional<std::uint64_t> e_at_least_100;  ///< bets: runs whose largest E reached 100
  std::optional<double> e_p_value;  ///< exact binomial: that many, if each had probability 0.01
  std::uint64_t reds = 0;           ///< runs below the level of the gate
  bool passed = false;
};

/// Judges the p-values of null runs: passed where distance and e_at_least_100 are not above chance
/// at `level` each, and no p-value is below `red_level`.
CalibrationRow calibration_row(const std::string& statistic, Validity validity,
                               std::span<const double> p_values, double level, double red_level);

struct CalibrationOptions {
  std::uint64_t runs = 10'000;  ///< of each statistic
  std::uint64_t seed = 0;
  unsigned threads = 1;
};

/// False alarm rate of one calibration, shared out to all of its comparisons. Reds come on top:
/// a right harness has one in 1 / (runs * statistics * level of the gate) calibrations.
inline constexpr double kCalibrationFalseAlarmRate = 1e-9;

/// Every statistic of the gate, alone on multinomial draws or uniform numbers, and the statistical
/// checks as a whole on the integer model, at reduced draws. The same seed gives the same rows,
/// whatever `threads` is.
std::vector<CalibrationRow> calibrate(const CalibrationOptions& options);

}  // namespace fairdraw::suites
