// The GPU that a benchmark runs on.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "fairdraw/cuda.h"

namespace fairdraw::suites {

/// Returns the properties of the current device.
cudaDeviceProp device_properties();

/// Returns GPU, driver, commit and date as text.
std::string machine_text(const cudaDeviceProp& properties);

/// Returns the execution path in a backend's name, e.g. cuda:block.
cuda::Path path_of(const std::string& backend);

/// Throws harness::UsageError if a backend cannot run here.
void expect_available(const std::vector<std::string>& backends);

}  // namespace fairdraw::suites
