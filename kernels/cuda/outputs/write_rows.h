// Interface of the kernel that writes whole rows: masks, probabilities, masked logits
// (write_rows.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/tiles/filtered_rows.h"

namespace fairdraw::cuda {

/// Outputs to write for each row; a null pointer is an output that is not requested.
struct RowsOutputTask {
  FilteredRows filtered;
  BitRows<std::uint32_t> mask;
  FloatRows probs;
  void* masked = nullptr;  ///< values in the rows' dtype, -inf for dropped tokens; may be the input
                           ///< rows themselves
  std::int64_t masked_row_stride = 0;  ///< in elements
  RowStatus* statuses = nullptr;       ///< [rows]
};

/// Enqueues the kernel that writes whole rows; requires at least one row. Returns the launch's CUDA
/// error.
cudaError_t write_rows(const RowsOutputTask& task, cudaStream_t stream);

/// Finds the compute capability, 10 * major + minor, for which this kernel's code was compiled; all
/// kernels are compiled alike. This kernel is queried because a kernel in a module of its own would
/// be loaded first, and would move the row kernel's code to an address at which a single row takes
/// 11 % longer (top_k 50, float32, an H200).
cudaError_t compiled_capability(int& capability);

}  // namespace fairdraw::cuda
