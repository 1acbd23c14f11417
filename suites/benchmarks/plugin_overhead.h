// `fairdraw bench --backend plugin:PATH` measures the overhead of a plugin's calls.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::suites {

/// Returns two records for the plugin `name`, "@trusted" and "@isolated". Each has the time of a
/// call with one greedy row, relative to a direct call of the plugin's function; the arrays are in
/// the memory that the sampler prefers. Throws harness::UsageError if the plugin cannot be loaded
/// or rejects the call.
std::vector<harness::BenchmarkRecord> plugin_overhead(const std::string& name, std::int64_t vocab,
                                                      double milliseconds);

}  // namespace fairdraw::suites
