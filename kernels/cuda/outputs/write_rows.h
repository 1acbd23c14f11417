// Interface of the kernel that writes whole rows: masks, probabilities, masked logits
// (write_rows.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/tiles/filtered_rows.h"

namespace fairdraw::cuda {

/// Outputs to write for each row; null: not wanted.
struct RowsOutputTask {
  FilteredRows filtered;
  BitRows<std::uint32_t> mask;
  FloatRows probs;
  void* masked = nullptr;  ///< in the rows' dtype, -inf where dropped; may be the rows themselves
  std::int64_t masked_row_stride = 0;  ///< in elements
  RowStatus* statuses = nullptr;       ///< [rows]
};

/// Enqueues the kernel; at least one row. Returns the launch's error.
cudaError_t write_rows(const RowsOutputTask& task, cudaStream_t stream);

/// Finds the compute capability, 10 * major + minor, for which this kernel's code was compiled; all
/// kernels are compiled alike. This kernel is asked because a module of its own would be loaded
/// first, and would move the row kernel's code to where it costs a single row 11 % (top_k 50,
/// float32, an H200).
cudaError_t compiled_capability(int& capability);

}  // namespace fairdraw::cuda
