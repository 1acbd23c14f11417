// Divides a run into shards that take equal time, by measured times of cases instead of their
// number.
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

/// The expected times of cases. Every shard of a run must be made from the same times. If times
/// differ, a case may be in two shards or in none, which `merge` detects.
class CaseTimes {
 public:
  /// Makes times from the table of case_seconds.inc.
  CaseTimes() = default;
  /// Makes times from an earlier run, by the id and the sampler of each case. All other cases have
  /// the times of the table, scaled by the ratio of the run to the table over all cases of the run.
  explicit CaseTimes(const harness::RunRecord& earlier);

  /// Returns the expected time of a case in seconds. `usual_draws` is the number of draws in the
  /// case table, from which that of `entry` may differ.
  double seconds(const Case& entry, const std::string& sampler, std::uint64_t usual_draws) const;

 private:
  struct Measured {
    double seconds = 0;
    std::uint64_t draws = 0;
  };
  // measured times by id and sampler
  std::map<std::pair<std::string, std::string>, Measured> measured_;
  double scale_ = 1;
};

/// Returns the seconds that the table has for a check and a vocabulary. A vocabulary that is
/// missing in the table gets the time of the nearest one of the check by logarithm (of two, the
/// smaller); an unknown check gets 0.1 s.
double table_seconds(std::string_view check, std::uint64_t vocab);

/// Returns the number of the shard for each case, from 0 on. The longest case is assigned first,
/// and each case goes to the shard with the least time so far (Graham 1969: the longest shard takes
/// at most 4/3 of the optimum). If there is a tie, the first case and the first shard are taken.
/// Times that are negative or not finite count as 0.
std::vector<std::uint32_t> balanced_shards(std::span<const double> seconds, std::uint32_t shards);

}  // namespace fairdraw::suites
