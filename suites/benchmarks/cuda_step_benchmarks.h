// Steps of FusedSamplingProcessor on a GPU relative to the same calls of `sample`:
// `fairdraw bench --backend cuda --operation step/top_k_50+top_p_0.9`.
#pragma once

#include <string>
#include <vector>

#include "harness/run/evidence/record.h"
#include "suites/benchmarks/benchmarks.h"

namespace fairdraw::suites {

inline constexpr const char* kStepPrefix = "step/";

/// True for names as step/top_k_50+top_p_0.9.
bool is_step_operation(const std::string& name);

/// Three records a cell: the device's time of a step relative to that of `sample` over the same
/// arrays; the host's time of both, as `host`; and as `copies` the device's time of eight steps in
/// a row with a copy of tokens after each, relative to eight steps without. Tokens of a step are
/// compared with the CPU's; what differs is added to `failures`. Empty lists of the options: one
/// cell.
std::vector<harness::BenchmarkRecord> run_step_benchmarks(
    const BenchmarkOptions& options, const std::vector<std::string>& backends,
    const std::vector<std::string>& operations, std::vector<std::string>& failures);

}  // namespace fairdraw::suites
