// Interface of the kernel that finds the edits of processed rows (edit_rows.cu).
//
// The interface is private to kernels/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/rows/edit_planes.h"
#include "fairdraw/logits_processing.h"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Tokens whose biases are greater by one number (the green list of fairdraw/watermark.h).
struct GreenTokens {
  const std::uint32_t* bits = nullptr;  ///< [rows, EditPlanes::words_of_row], with 0 beyond the
                                        ///< vocabulary; null if no call has such tokens
  float bias = 0;
};

/// Rows whose logits are processed. The row kernel has no part in this, so that its launches do not
/// carry the many parameters of processing.
struct EditTask {
  RowsView rows;
  BitRows<const std::uint32_t> allowed;
  View<const std::uint8_t> active;
  LogitsProcessing processing;
  EditPlanes edits;  ///< receives the edits
  /// [rows]: receives the share of the entropy of rows whose temperature follows it, and 1 for
  /// other active rows; null if no temperature of the call follows the entropy
  double* entropy_shares = nullptr;
  GreenTokens green = {};
  /// Lists of the logits processing contain ids of a vocabulary of whole_vocab tokens. The rows are
  /// the columns of this vocabulary from first_id on, and ids of other columns have no effect. If
  /// whole_vocab is 0, the lists contain ids of the rows themselves.
  int first_id = 0;
  int whole_vocab = 0;
};

/// Enqueues the kernel, which finds the edits of all active rows for the row kernel and later
/// kernels. The task must have `edits`, and rows.rows must be in [1, 2^22). Returns the CUDA error
/// of the launch.
cudaError_t edit_rows(const EditTask& task, cudaStream_t stream);

/// Does the same for a task with green tokens (edit_green_rows.cu).
cudaError_t edit_green_rows(const EditTask& task, cudaStream_t stream);

}  // namespace fairdraw::cuda
