// Interface of the kernel that finds the edits of processed rows (edit_rows.cu).
//
// Private to kernels/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/tiles/filter_rows.h"

namespace fairdraw::cuda {

/// Enqueues the kernel, which finds the edits of all active rows for the row kernel and the kernels
/// after it. task.edits is given; rows.rows in [1, 2^22). Returns the launch's CUDA error.
cudaError_t edit_rows(const RowsTask& task, cudaStream_t stream);

}  // namespace fairdraw::cuda
