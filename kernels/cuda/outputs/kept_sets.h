// Interface of the kernels that make kept sets (kept_sets.cu): one kernel marks the survivors as
// bits of rows, another packs the ids of the marked tokens.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/rows/filtered_rows.h"
#include "fairdraw/kept_sets.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// Marks of the kept ids of some rows, with the counts of these marks. A row is divided into parts
/// of whole tiles, with one block per part. From the counts, the block that writes the ids of a
/// part knows at which offset to begin.
struct KeptMarks {
  const std::uint32_t* words = nullptr;  ///< words of marks, in which token i has bit (i % 32) of
                                         ///< word i / 32
  std::int64_t row_stride = 0;           ///< distance in words between the marks of two rows
  std::int64_t rows = 0;
  std::int64_t vocab = 0;          ///< number of tokens; bits of larger ids have no meaning
  std::int32_t* counts = nullptr;  ///< [rows, parts]
  int parts = 1;                   ///< a power of two
};

/// Maximum number of parts into which a row is divided. If there are few rows, each is divided into
/// more parts, so that the device has enough blocks. The number of counts stays small, because
/// every block of a call reads all of them.
inline constexpr int kMaxKeptParts = 16;
constexpr int kept_parts(std::int64_t rows) {
  int parts = 1;
  while (parts < kMaxKeptParts && parts * rows <= 256) parts *= 2;
  return parts;
}

/// Returns the number of words that the marks of a row take in a workspace, where rows end with a
/// whole tile.
constexpr std::int64_t mark_words_of(std::int64_t vocab) {
  return tiles_of(vocab) * (kTileSize / 32);
}

struct MarkTask {
  FilteredRows filtered;
  TileRows<const std::int32_t> keys;  ///< keys of the largest value of each tile, in rows whose
                                      ///< status is ok
  KeptMarks marks;
  std::uint32_t* words = nullptr;  ///< words of `marks`, which this kernel writes
};

struct PackTask {
  KeptMarks marks;
  View<const std::int32_t> indices;  ///< optional row of each output: output i belongs to row
                                     ///< indices[i]
  View<const RowStatus> statuses;    ///< optional statuses [outputs]; an output whose status is not
                                     ///< ok gets an empty set
  std::int64_t outputs = 0;
  std::int32_t first_id = 0;  ///< id of the first column of the rows
  KeptSets kept;
  std::int32_t* support_size = nullptr;  ///< [outputs], optional
};

/// Enqueues the kernel that marks and counts the survivors of filtered rows; there must be at least
/// one row. Returns the CUDA error of the launch.
cudaError_t mark_kept(const MarkTask& task, cudaStream_t stream);

/// Enqueues the kernel that counts marks that are already there; there must be at least one row.
cudaError_t count_kept(const KeptMarks& marks, cudaStream_t stream);

/// Enqueues the kernels that make sets from marks and counts; the number of outputs may be 0.
cudaError_t pack_kept(const PackTask& task, cudaStream_t stream);

}  // namespace fairdraw::cuda
