// Interface of the kernel that finds the top_p of rows whose top_p decays (decay_top_p.cu).
//
// The interface is private to kernels/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "fairdraw/logits_processing.h"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Rows whose top_p decays.
struct DecayTask {
  std::int64_t rows = 0;
  View<const std::uint8_t> active;
  LogitsProcessing processing;
  PerRequest<float> top_p;  ///< of the requests
  float* now = nullptr;     ///< [rows]: receives the top_p of each row
};

/// Enqueues the kernel; task.rows must be in [1, 2^22). Returns the CUDA error of the launch.
///
/// The kernel must run before edit_rows: kernels after edit_rows may start before edit_rows has
/// ended, but not before all that ran before it.
cudaError_t decay_top_p(const DecayTask& task, cudaStream_t stream);

}  // namespace fairdraw::cuda
