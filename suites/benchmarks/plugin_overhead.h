// Overhead of a plugin's calls: `fairdraw bench --backend plugin:PATH`.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::suites {

/// Returns two records for the plugin `name`, "@trusted" and "@isolated": the time of a call of one
/// greedy row, with arrays in the sampler's preferred memory, relative to a direct call of the
/// plugin's function. Throws harness::UsageError if the plugin cannot be loaded or refuses the
/// call.
std::vector<harness::BenchmarkRecord> plugin_overhead(const std::string& name, std::int64_t vocab,
                                                      double milliseconds);

}  // namespace fairdraw::suites
