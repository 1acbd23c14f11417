// Interface of the kernel that finds the edits of processed rows (edit_rows.cu).
//
// The interface is private to kernels/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/tiles/filter_rows.h"

namespace fairdraw::cuda {

/// Enqueues the kernel, which finds the edits of all active rows for the row kernel and later
/// kernels. The task must have `edits`, and rows.rows must be in [1, 2^22). Returns the CUDA error
/// of the launch.
cudaError_t edit_rows(const RowsTask& task, cudaStream_t stream);

}  // namespace fairdraw::cuda
