// Interface of the kernel that makes whole rows from edits (apply_edits.cu).
//
// Private to kernels/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/tiles/filter_rows.h"

namespace fairdraw::cuda {

/// Enqueues the kernel, after edit_rows of the same task. It writes processed rows of float32,
/// [rows, vocab], to `values`, `stride` values apart. Returns the launch's error.
cudaError_t apply_edits(const RowsTask& task, float* values, std::int64_t stride,
                        cudaStream_t stream);

}  // namespace fairdraw::cuda
