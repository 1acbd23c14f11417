// Interface of the kernel that writes whole processed rows from edits (apply_edits.cu).
//
// Private to kernels/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/tiles/filter_rows.h"

namespace fairdraw::cuda {

/// Enqueues the kernel, which must follow edit_rows of the same task. The kernel writes processed
/// rows of float32, [rows, vocab], to `values`; rows are `stride` values apart. Returns the
/// launch's CUDA error.
cudaError_t apply_edits(const RowsTask& task, float* values, std::int64_t stride,
                        cudaStream_t stream);

}  // namespace fairdraw::cuda
