// What a call of a plugin costs: `fairdraw bench --backend plugin:PATH`.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::suites {

/// Two records for the plugin `name`, "@trusted" and "@isolated": the time of a call of one greedy
/// row with arrays where the sampler wants them, relative to a direct call of the plugin's own
/// function, through nothing. Throws harness::UsageError for one that cannot be loaded or refuses
/// the call.
std::vector<harness::BenchmarkRecord> plugin_overhead(const std::string& name, std::int64_t vocab,
                                                      double milliseconds);

}  // namespace fairdraw::suites
