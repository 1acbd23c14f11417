// Where processed rows differ from the caller's, as kernels hand it to each other; and the kernel
// that finds it (edit_rows.cu).
//
// A row's edits are sparse: tokens whose logit a penalty or a bias changed, and banned tokens. They
// lie in the workspace, so that no processed row is stored: two bits for every token, edited and
// banned, and a float32 for every token of which only those of edited tokens are written.
//
// Places, not tokens, number them: place = token + (values between the row's first address and the
// 16-byte boundary before it). So the vectors of 16 bytes that a row is read in lie whole in a
// word, and blocks that share a row share no word.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "fairdraw/types.h"

namespace fairdraw::cuda {

struct RowsTask;  // filter_rows.h

/// 32 places: which are edited, and which are banned (banned counts where both are set).
using EditBits = uint2;

/// The edits of a call's rows. Absent where `bits` is null.
struct EditPlanes {
  EditBits* bits = nullptr;         ///< [rows, words_of_row]
  float* values = nullptr;          ///< [rows, places_of_row]; counts while a row is being edited
  std::uint32_t* later = nullptr;   ///< [rows, words_of_row]; what a block notes for itself
  std::uint32_t* faults = nullptr;  ///< [rows]: row_fault.h
  std::int64_t places_of_row = 0;   ///< 32 * words_of_row

  constexpr bool given() const { return bits != nullptr; }
  __host__ __device__ std::int64_t words_of_row() const { return places_of_row / 32; }
};

/// Enqueues the kernel: the edits of all active rows, for the row kernel and those after it.
/// task.edits is given; rows.rows in [1, 2^22). Returns the launch's error.
cudaError_t edit_rows(const RowsTask& task, cudaStream_t stream);

/// Places of a row: its tokens, up to 7 before them, and up to one step of 32 vectors of 8 tokens
/// for every warp of the row's blocks (8 blocks of 16 warps, or 4 of 32) after them.
constexpr std::int64_t places_of(std::int64_t vocab) {
  constexpr std::int64_t kWarpsOfRow = 128;
  constexpr std::int64_t kValuesOfVector = 8;
  return (vocab + (kWarpsOfRow + 1) * kValuesOfVector + 31) / 32 * 32;
}

/// The place of a row's token 0.
__device__ inline int place_of_first_token(const void* row, DType dtype) {
  const auto address = reinterpret_cast<std::uintptr_t>(row);
  const std::uintptr_t size = dtype == DType::float32 ? 4 : 2;
  return address % size == 0 ? static_cast<int>(address % 16 / size) : 0;
}

}  // namespace fairdraw::cuda
