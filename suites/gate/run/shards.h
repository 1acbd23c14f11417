// Shards of a run that take equally long: by how long cases took before, and not by their number.
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

/// How long cases take. Every shard of a run must be made from the same times, or cases would be in
/// two of them and in none: `merge` finds that.
class CaseTimes {
 public:
  /// The table of case_seconds.inc.
  CaseTimes() = default;
  /// Those of an earlier run, by id and sampler. For cases that it lacks, the table, times the
  /// quotient of what the run and the table say of all others.
  explicit CaseTimes(const harness::RunRecord& earlier);

  /// `usual_draws`: those that the case table states, where `entry` has others.
  double seconds(const Case& entry, const std::string& sampler, std::uint64_t usual_draws) const;

 private:
  struct Measured {
    double seconds = 0;
    std::uint64_t draws = 0;
  };
  std::map<std::pair<std::string, std::string>, Measured> measured_;  // by id and sampler
  double scale_ = 1;
};

/// Of the table: by check and vocabulary, where that is missing the nearest one of the check by
/// logarithm, the smaller of two; 0.1 for a check that is not there.
double table_seconds(std::string_view check, std::uint64_t vocab);

/// The shard of each case, from 0: longest first, each to the shard that has least so far (Graham
/// 1969: the longest shard takes at most 4/3 of what it has in the best division). Among equals the
/// first case, and the first shard. Not finite, or negative: counts as 0.
std::vector<std::uint32_t> balanced_shards(std::span<const double> seconds, std::uint32_t shards);

}  // namespace fairdraw::suites
