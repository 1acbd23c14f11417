// Where processed rows differ from the caller's, as the kernel that finds it
// (processing/edit_rows.cu) hands it to those that read rows.
//
// A row's edits are sparse: tokens whose logit a penalty or a bias changed, and banned tokens. They
// lie in the workspace, so that no processed row is stored: two bits for every token, allowed and
// edited, and a float32 for every token of which only those of edited tokens are written. Token ids
// number them, as they number bits of `allowed`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/device/early_start.h"
#include "cuda/tiles/row_fault.h"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// The edits of one row. Absent where `edited` is null.
struct RowEdits {
  const std::uint32_t* allowed = nullptr;  ///< bits: neither the call's mask nor processing bans
  const std::uint32_t* edited = nullptr;   ///< bits of tokens with a value of their own
  const float* values = nullptr;
};

/// The edits of a call's rows. Absent where `edited` is null.
struct EditPlanes {
  std::uint32_t* allowed = nullptr;  ///< [rows, words_of_row], with what the call's mask bans
  std::uint32_t* edited = nullptr;   ///< [rows, words_of_row]
  float* values = nullptr;           ///< [rows, tokens_of_row]; counts while a row is being edited
  std::uint32_t* later = nullptr;    ///< [rows, words_of_row]; what a block notes for itself
  RowFault* faults = nullptr;        ///< [rows]
  std::int64_t words_of_row = 0;

  __host__ __device__ bool given() const { return edited != nullptr; }
  __host__ __device__ std::int64_t tokens_of_row() const { return 32 * words_of_row; }
  /// What edit_rows found wrong with a row that is active; the caller waits for it.
  __device__ RowFault fault_of(std::int64_t row) const {
    return given() ? faults[row] : RowFault::none;
  }
  __device__ RowEdits of(std::int64_t row) const {
    if (!given()) return {};
    return {allowed + row * words_of_row, edited + row * words_of_row,
            values + row * tokens_of_row()};
  }
};

/// Waits for edit_rows in a kernel that starts while that one runs (ClusterLaunch::start_early);
/// in others it is no time.
__device__ __forceinline__ void await_edits() { await_kernel_before(); }

}  // namespace fairdraw::cuda
