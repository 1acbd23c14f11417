// Interface of the kernel that finds the temperature of rows whose temperature follows the entropy
// (follow_entropy.cu).
//
// The interface is private to kernels/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "fairdraw/logits_processing.h"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Rows whose temperature follows the entropy.
struct TemperatureTask {
  std::int64_t rows = 0;
  View<const std::uint8_t> active;
  LogitsProcessing processing;
  PerRequest<float> temperature;   ///< of the requests
  const double* shares = nullptr;  ///< [rows]: EditTask::entropy_shares
  float* now = nullptr;            ///< [rows]: receives the temperature of each row
};

/// Enqueues the kernel; task.rows must be in [1, 2^22). Returns the CUDA error of the launch.
///
/// The kernel must run between edit_rows and the row kernel, which must not start early.
cudaError_t follow_entropy(const TemperatureTask& task, cudaStream_t stream);

}  // namespace fairdraw::cuda
