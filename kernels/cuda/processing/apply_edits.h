// Interface of the kernel that writes whole processed rows from edits (apply_edits.cu).
//
// The interface is private to kernels/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/processing/edit_rows.h"

namespace fairdraw::cuda {

/// Enqueues the kernel, which must run after edit_rows of the same task. The kernel writes the
/// processed rows as float32 values [rows, vocab] to `values`, where rows are `stride` values
/// apart. Returns the CUDA error of the launch.
cudaError_t apply_edits(const EditTask& task, float* values, std::int64_t stride,
                        cudaStream_t stream);

}  // namespace fairdraw::cuda
