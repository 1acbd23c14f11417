// Edits of rows: the differences between processed rows and the caller's rows, which one kernel
// (processing/edit_rows.cu) finds and all kernels that read rows apply.
//
// A row has few edits: tokens whose logit a penalty or a bias has changed, and banned tokens. Only
// adaptive_p edits all tokens that are left. The
// workspace stores the edits instead of whole processed rows: two bits per token (allowed and
// edited), and a float32 per token that is written only if the token is edited. All edits are
// indexed by token id, like the bits of `allowed`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/device/early_start.h"
#include "cuda/rows/row_fault.h"
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
  std::uint32_t* allowed = nullptr;  ///< allowed bits [rows, words_of_row], which include the
                                     ///< call's mask
  std::uint32_t* edited = nullptr;   ///< edited bits [rows, words_of_row]
  float* values = nullptr;  ///< processed logits [rows, tokens_of_row]; counts of tokens while
                            ///< edit_rows edits a row
  std::uint32_t* later = nullptr;  ///< scratch bits of edit_rows [rows, words_of_row]
  RowFault* faults = nullptr;      ///< [rows]
  std::int64_t words_of_row = 0;

  __host__ __device__ bool given() const { return edited != nullptr; }
  __host__ __device__ std::int64_t tokens_of_row() const { return 32 * words_of_row; }
  /// Returns the fault that edit_rows has found in a row that is active. Precondition: the calling
  /// kernel has waited for edit_rows.
  __device__ RowFault fault_of(std::int64_t row) const {
    return given() ? faults[row] : RowFault::none;
  }
  __device__ RowEdits of(std::int64_t row) const {
    if (!given()) return {};
    return {allowed + row * words_of_row, edited + row * words_of_row,
            values + row * tokens_of_row()};
  }
};

/// Waits for edit_rows in a kernel that was started while edit_rows still runs
/// (ClusterLaunch::start_early). In kernels that were not started early, this call takes no time.
__device__ __forceinline__ void await_edits() { await_kernel_before(); }

}  // namespace fairdraw::cuda
