// Divides a run into shards of equal time, by measured times of cases instead of their number.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/run/evidence/record.h"
#include "suites/gate/cases/case.h"

namespace fairdraw::suites {

/// Expected times of cases. Every shard of a run must be made from the same times; otherwise a case
/// may be in two shards or in none, which `merge` detects.
class CaseTimes {
 public:
  /// Uses the table of case_seconds.inc.
  CaseTimes() = default;
  /// Uses the times of the cases in an earlier run, by id and sampler. All other cases use the
  /// table, scaled by the ratio of run to table over all cases of the run.
  explicit CaseTimes(const harness::RunRecord& earlier);

  /// Returns the expected seconds of a case. `usual_draws`: the number of draws in the case table,
  /// from which `entry` may differ.
  double seconds(const Case& entry, const std::string& sampler, std::uint64_t usual_draws) const;

 private:
  struct Measured {
    double seconds = 0;
    std::uint64_t draws = 0;
  };
  std::map<std::pair<std::string, std::string>, Measured> measured_;  // by id and sampler
  double scale_ = 1;
};

/// Returns the table's seconds by check and vocabulary. A vocabulary that is missing gets the time
/// of the nearest one of the check by logarithm (the smaller of two), an unknown check 0.1.
double table_seconds(std::string_view check, std::uint64_t vocab);

/// Returns the number of the shard for each case, from 0. The longest case is assigned first, each
/// case to the shard with the least time so far (Graham 1969: the longest shard takes at most 4/3
/// of the optimum). Ties go to the first case and the first shard. Seconds that are negative or not
/// finite count as 0.
std::vector<std::uint32_t> balanced_shards(std::span<const double> seconds, std::uint32_t shards);

}  // namespace fairdraw::suites
