// The index of tiles relative to the maximum alone: `fairdraw bench --operation tile_index`.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"
#include "suites/benchmarks/benchmarks.h"

namespace fairdraw::suites {

/// True for names that begin as tile_index does.
bool is_tile_operation(const std::string& name);

/// A record for each operation, backend and combination of the options. Throws
/// harness::UsageError for a name that there is not.
std::vector<harness::BenchmarkRecord> tile_benchmarks(const BenchmarkOptions& options,
                                                      const std::vector<std::string>& backends,
                                                      const std::vector<std::string>& operations);

}  // namespace fairdraw::suites
