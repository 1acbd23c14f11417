#include "suites/gate/calibration/calibration.h"

#include <algorithm>
#include <cmath>

#include "harness/run/calls/random_words.h"
#include "harness/run/parallel.h"
#include "harness/statistics/statistics.h"
#include "suites/gate/calibration/null_runs.h"

namespace fairdraw::suites {
namespace {

constexpr std::uint64_t kChunk = 250;  // number of runs that one thread makes at a time

// Fills p_values[statistic][run], using `threads` threads. The seed of a run depends on the
// calibration's seed, the statistic and the number of the run alone.
void make_runs(const CalibrationOptions& options, std::vector<std::vector<double>>& p_values) {
  const std::vector<NullRun>& all = null_runs();
  const std::uint64_t chunks = (options.runs + kChunk - 1) / kChunk;
  harness::in_parallel(chunks * all.size(), options.threads, [&](std::size_t i) {
    const std::size_t statistic = i % all.size();
    const std::uint64_t seed = harness::mixed(options.seed, statistic);
    const std::uint64_t first = i / all.size() * kChunk;
    for (std::uint64_t run = first; run < std::min(first + kChunk, options.runs); ++run) {
      p_values[statistic][run] = all[statistic].p_value(harness::mixed(seed, run));
    }
  });
}

}  // namespace

const char* to_string(Validity validity) {
  switch (validity) {
    case Validity::exact:
      return "exact";
    case Validity::bound:
      return "bound";
    case Validity::limit:
      return "limit";
    case Validity::bet:
      return "bet";
  }
  return "unknown";
}

CalibrationRow calibration_row(const std::string& statistic, Validity validity,
                               std::span<const double> p_values, double level, double red_level) {
  CalibrationRow row;
  row.statistic = statistic;
  row.validity = validity;
  row.runs = p_values.size();
  std::vector<double> sorted(p_values.begin(), p_values.end());
  std::sort(sorted.begin(), sorted.end());
  const double runs = static_cast<double>(sorted.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    row.distance = std::max(row.distance, static_cast<double>(i + 1) / runs - sorted[i]);
  }
  row.smallest_p = sorted.empty() ? 1 : sorted.front();
  // The bound is the one-sided bound of Massart 1990, which is valid up to 1/2; every level that is
  // used here is smaller.
  row.p_value = std::min(1.0, std::exp(-2 * runs * row.distance * row.distance));
  const auto at_most = [&sorted](double limit) {
    return static_cast<std::uint64_t>(std::upper_bound(sorted.begin(), sorted.end(), limit) -
                                      sorted.begin());
  };
  row.reds = at_most(red_level);
  row.passed = row.reds == 0 && row.p_value >= level;
  if (validity != Validity::bet) return row;
  row.e_at_least_100 = at_most(0.01);
  row.e_p_value = statistics::binomial_upper_tail(*row.e_at_least_100, row.runs, 0.01);
  row.passed = row.passed && *row.e_p_value >= level;
  return row;
}

std::vector<CalibrationRow> calibrate(const CalibrationOptions& options) {
  const std::vector<NullRun>& all = null_runs();
  std::vector<std::vector<double>> p_values(all.size(), std::vector<double>(options.runs, 1));
  make_runs(options, p_values);
  const auto bets = std::count_if(all.begin(), all.end(),
                                  [](const NullRun& run) { return run.validity == Validity::bet; });
  const double level =
      kCalibrationFalseAlarmRate / static_cast<double>(all.size() + static_cast<std::size_t>(bets));
  std::vector<CalibrationRow> rows;
  for (std::size_t i = 0; i < all.size(); ++i) {
    rows.push_back(
        calibration_row(all[i].statistic, all[i].validity, p_values[i], level, gate_level()));
  }
  return rows;
}

}  // namespace fairdraw::suites
