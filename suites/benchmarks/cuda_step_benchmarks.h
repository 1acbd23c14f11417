// Benchmarks of steps of FusedSamplingProcessor on a GPU relative to the same calls of `sample`:
// `fairdraw bench --backend cuda --operation step/top_k_50+top_p_0.9`.
#pragma once

#include <string>
#include <vector>

#include "fairdraw/cuda.h"
#include "suites/benchmarks/benchmarks.h"
#include "suites/benchmarks/device_values.h"

namespace fairdraw::suites {

/// Adds three records of `of_cell`: the device time of a step relative to the same call of
/// `sample`; the host time of both, as `host`; and, as `copies`, the device time of eight
/// successive steps with a token copy after each, relative to eight steps without. Returns a
/// difference of a step's tokens from the CPU's, or an empty string.
std::string measure_step(const Operation& operation, const std::string& processing, cuda::Path path,
                         const DeviceRows& rows, const harness::BenchmarkRecord& of_cell,
                         const cuda::Stream& stream, ColdTimer& timer,
                         std::vector<harness::BenchmarkRecord>& records);

}  // namespace fairdraw::suites
