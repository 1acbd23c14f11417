// The tests require that calibration passes valid p-values, and fails p-values that are slightly
// too small.
#include "suites/gate/calibration/calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace fairdraw::suites {
namespace {

constexpr double kLevel = 1e-9, kRed = 1e-12;

std::vector<double> uniforms(std::size_t count) {
  std::mt19937_64 generator(44);
  std::vector<double> values(count);
  for (double& value : values) value = (static_cast<double>(generator() >> 12) + 0.5) * 0x1p-52;
  return values;
}

TEST(Calibration, PassesUniformAndLargerPValues) {
  const std::vector<double> uniform = uniforms(10'000);
  EXPECT_TRUE(calibration_row("a", Validity::exact, uniform, kLevel, kRed).passed);
  std::vector<double> larger = uniform;
  for (double& value : larger) value = std::sqrt(value);
  const CalibrationRow row = calibration_row("a", Validity::exact, larger, kLevel, kRed);
  EXPECT_TRUE(row.passed);
  EXPECT_FALSE(row.e_at_least_100.has_value());
  EXPECT_LE(row.distance, 1e-4);  // the p-values' empirical distribution function has steps of this
                                  // size
}

// P(p^1.2 <= a) = a^(1 / 1.2) exceeds a by up to 0.067, and 10^4 runs detect sqrt(ln(1e9) / 2e4) =
// 0.032.
TEST(Calibration, SeesPValuesThatAreTooSmall) {
  std::vector<double> values = uniforms(10'000);
  for (double& value : values) value = std::pow(value, 1.2);
  const CalibrationRow row = calibration_row("a", Validity::exact, values, kLevel, kRed);
  EXPECT_FALSE(row.passed);
  EXPECT_EQ(row.reds, 0U);
}

TEST(Calibration, SeesOneRed) {
  std::vector<double> values = uniforms(1000);
  values[17] = 1e-13;
  const CalibrationRow row = calibration_row("a", Validity::exact, values, kLevel, kRed);
  EXPECT_EQ(row.reds, 1U);
  EXPECT_FALSE(row.passed);
  EXPECT_EQ(row.smallest_p, 1e-13);
}

// If 3 of 100 runs reach E >= 100, these are too many in 10^4 runs, but too few for the DKWM bound.
TEST(Calibration, CountsLargeEValues) {
  std::vector<double> values(10'000, 1.0);
  for (std::size_t i = 0; i < values.size(); i += 33) values[i] = 0.009;
  const CalibrationRow row = calibration_row("a", Validity::bet, values, kLevel, kRed);
  EXPECT_EQ(row.e_at_least_100, 304U);
  EXPECT_GE(row.p_value, kLevel);
  EXPECT_FALSE(row.passed);
}

TEST(Calibration, OfTheGatePasses) {
  CalibrationOptions options;
  options.runs = 200;
  options.seed = 5;
  const std::vector<CalibrationRow> rows = calibrate(options);
  EXPECT_GE(rows.size(), 19U);
  for (const CalibrationRow& row : rows) {
    EXPECT_TRUE(row.passed) << row.statistic << ": distance " << row.distance;
    EXPECT_EQ(row.runs, 200U);
    EXPECT_LT(row.smallest_p, 1) << row.statistic;
  }
  options.threads = 3;
  const std::vector<CalibrationRow> again = calibrate(options);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].distance, again[i].distance) << rows[i].statistic;
  }
}

}  // namespace
}  // namespace fairdraw::suites
