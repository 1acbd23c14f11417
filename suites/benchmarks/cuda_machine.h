// The GPU that a benchmark runs on.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "fairdraw/cuda.h"

namespace fairdraw::suites {

/// Of the current device.
cudaDeviceProp device_properties();

/// GPU, driver, commit and date.
std::string machine_text(const cudaDeviceProp& properties);

/// The path of a backend's name, e.g. cuda:block.
cuda::Path path_of(const std::string& backend);

/// Throws harness::UsageError where a backend cannot run here.
void expect_available(const std::vector<std::string>& backends);

}  // namespace fairdraw::suites
