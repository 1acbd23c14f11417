// Differences between processed rows and the caller's rows, which one kernel
// (processing/edit_rows.cu) finds and all kernels that read rows apply.
//
// The edits of a row are sparse: tokens whose logit a penalty or a bias has changed, and banned
// tokens. Edits are kept in the workspace instead of whole processed rows: two bits per token,
// allowed and edited, and a float32 per token, which is written only for edited tokens. All edits
// are indexed by token id, like the bits of `allowed`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/device/early_start.h"
#include "cuda/tiles/row_fault.h"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Edits of one row. The row has no edits if `edited` is null.
struct RowEdits {
  const std::uint32_t* allowed;  ///< bits of tokens that neither the mask nor processing bans
  const std::uint32_t* edited;   ///< bits of tokens whose processed logit is in `values`
  const float* values;
};

/// Edits of all rows of a call. The rows have no edits if `edited` is null.
struct EditPlanes {
  std::uint32_t* allowed = nullptr;  ///< [rows, words_of_row], allowed bits, including the call's
                                     ///< mask
  std::uint32_t* edited = nullptr;   ///< [rows, words_of_row], edited bits
  float* values = nullptr;  ///< [rows, tokens_of_row], processed logits; counts of tokens while a
                            ///< row is being edited
  std::uint32_t* later = nullptr;  ///< [rows, words_of_row]; scratch bits of edit_rows
  RowFault* faults = nullptr;      ///< [rows]
  std::int64_t words_of_row = 0;

  __host__ __device__ bool given() const { return edited != nullptr; }
  __host__ __device__ std::int64_t tokens_of_row() const { return 32 * words_of_row; }
  /// Returns the fault that edit_rows found in an active row. Precondition: the calling kernel has
  /// waited for edit_rows.
  __device__ RowFault fault_of(std::int64_t row) const {
    return given() ? faults[row] : RowFault::none;
  }
  __device__ RowEdits of(std::int64_t row) const {
    if (!given()) return {};
    return {allowed + row * words_of_row, edited + row * words_of_row,
            values + row * tokens_of_row()};
  }
};

/// Waits for edit_rows in a kernel that starts while edit_rows still runs
/// (ClusterLaunch::start_early). In other kernels the call costs no time.
__device__ __forceinline__ void await_edits() { await_kernel_before(); }

}  // namespace fairdraw::cuda
