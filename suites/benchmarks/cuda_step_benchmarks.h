// Benchmarks measure steps of FusedSamplingProcessor on a GPU relative to the same calls of
// `sample`: `fairdraw bench --backend cuda --operation step/top_k_50+top_p_0.9`.
#pragma once

#include <string>
#include <vector>

#include "fairdraw/cuda.h"
#include "suites/benchmarks/benchmarks.h"
#include "suites/benchmarks/device_values.h"

namespace fairdraw::suites {

/// Adds three records of `of_cell`. The first has the device time of a step relative to the same
/// call of `sample`. `host` has the host time of both. `copies` has the device time of eight
/// consecutive steps with a copy of tokens after each, relative to eight steps without copies.
/// Returns a text about a difference between a step's tokens and the CPU's, or an empty string.
std::string measure_step(const Operation& operation, const std::string& processing, cuda::Path path,
                         const DeviceRows& rows, const harness::BenchmarkRecord& of_cell,
                         const cuda::Stream& stream, ColdTimer& timer,
                         std::vector<harness::BenchmarkRecord>& records);

}  // namespace fairdraw::suites
