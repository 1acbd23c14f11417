// Interface of the kernels that make kept sets (kept_sets.cu): they mark survivors in rows of bits,
// and pack their ids.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/tiles/filtered_rows.h"
#include "fairdraw/kept_sets.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// Marks of the kept ids of some rows, and the counts of these marks. A row is cut into parts of
/// whole tiles, one block each; the counts tell the block that writes a part's ids at which offset
/// to begin.
struct KeptMarks {
  const std::uint32_t* words = nullptr;  ///< words of marks: token i at bit (i % 32) of word i / 32
  std::int64_t row_stride = 0;           ///< distance between rows, in words
  std::int64_t rows = 0;
  std::int64_t vocab = 0;          ///< number of tokens; bits beyond have no meaning
  std::int32_t* counts = nullptr;  ///< [rows, parts]
  int parts = 1;                   ///< a power of two
};

/// Maximum number of parts per row. A few rows are cut into more parts each, so that the device has
/// enough blocks; the counts stay few, because every block of a call reads all of them.
inline constexpr int kMostKeptParts = 16;
constexpr int kept_parts(std::int64_t rows) {
  int parts = 1;
  while (parts < kMostKeptParts && parts * rows <= 256) parts *= 2;
  return parts;
}

/// Returns the number of words of a row of marks in a workspace, where rows end with a whole tile.
constexpr std::int64_t mark_words_of(std::int64_t vocab) {
  return tiles_of(vocab) * (kTileSize / 32);
}

struct MarkTask {
  FilteredRows filtered;
  TileRows<const std::int32_t> keys;  ///< keys of the tiles' largest values, in rows that are ok
  KeptMarks marks;
  std::uint32_t* words = nullptr;  ///< the words of `marks`, which the kernel writes
};

struct PackTask {
  KeptMarks marks;
  View<const std::int32_t> indices;  ///< optional: output i belongs to row indices[i]
  View<const RowStatus> statuses;    ///< optional, [outputs]: an output whose status is not ok gets
                                     ///< no set
  std::int64_t outputs = 0;
  std::int32_t first_id = 0;  ///< id of the rows' first column
  KeptSets kept;
  std::int32_t* support_size = nullptr;  ///< [outputs], optional
};

/// Enqueues the kernel that marks and counts the survivors of filtered rows; requires at least one
/// row. Returns the launch's CUDA error.
cudaError_t mark_kept(const MarkTask& task, cudaStream_t stream);

/// Enqueues the kernel that counts existing marks; requires at least one row.
cudaError_t count_kept(const KeptMarks& marks, cudaStream_t stream);

/// Enqueues the kernels that make sets from marks and counts, also for 0 outputs.
cudaError_t pack_kept(const PackTask& task, cudaStream_t stream);

}  // namespace fairdraw::cuda
