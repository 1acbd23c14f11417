// Steps of FusedSamplingProcessor on a GPU relative to the same calls of `sample`:
// `fairdraw bench --backend cuda --operation step/top_k_50+top_p_0.9`.
#pragma once

#include <string>
#include <vector>

#include "fairdraw/cuda.h"
#include "suites/benchmarks/benchmarks.h"
#include "suites/benchmarks/device_values.h"

namespace fairdraw::suites {

/// Adds three records of `of_cell`: the device's time of a step relative to that of the same call
/// of `sample`; the host's time of both, as `host`; and as `copies` the device's time of eight
/// steps in a row with a copy of tokens after each, relative to eight steps without. Returns what
/// of a step's tokens is not the CPU's; empty: nothing.
std::string measure_step(const Operation& operation, const std::string& processing, cuda::Path path,
                         const DeviceRows& rows, const harness::BenchmarkRecord& of_cell,
                         const cuda::Stream& stream, ColdTimer& timer,
                         std::vector<harness::BenchmarkRecord>& records);

}  // namespace fairdraw::suites
