// Interface of the kernel that writes whole rows, which are masks, probabilities and masked logits
// (write_rows.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/rows/filtered_rows.h"

namespace fairdraw::cuda {

/// Outputs to write for each row, where a null pointer means that the output is not requested.
struct RowsOutputTask {
  FilteredRows filtered;
  BitRows<std::uint32_t> mask;
  FloatRows probs;
  void* masked = nullptr;  ///< values in the dtype of the rows, with -inf for dropped tokens; the
                           ///< memory may be that of the input rows
  std::int64_t masked_row_stride = 0;  ///< in elements
  RowStatus* statuses = nullptr;       ///< [rows]
};

/// Enqueues the kernel that writes whole rows; there must be at least one row. Returns the CUDA
/// error of the launch.
cudaError_t write_rows(const RowsOutputTask& task, cudaStream_t stream);

/// Finds the compute capability, as 10 * major + minor, for which the code of this kernel was
/// compiled; all kernels are compiled for the same one. The function asks about this kernel,
/// because a kernel in a module of its own would be loaded first. Loading such a module would move
/// the code of the row kernel to an address at which a single row takes 11 % longer (top_k 50,
/// float32, one H200).
cudaError_t compiled_capability(int& capability);

}  // namespace fairdraw::cuda
