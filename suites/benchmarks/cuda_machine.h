// Properties of the GPU on which a benchmark runs.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "fairdraw/cuda.h"

namespace fairdraw::suites {

/// Returns the properties of the current device.
cudaDeviceProp device_properties();

/// Returns the names of GPU, driver, commit and date as one text.
std::string machine_text(const cudaDeviceProp& properties);

/// Returns the execution path that a backend's name contains, for example that of cuda:block.
cuda::Path path_of(const std::string& backend);

/// Throws harness::UsageError if this machine cannot run one of the backends.
void expect_available(const std::vector<std::string>& backends);

}  // namespace fairdraw::suites
