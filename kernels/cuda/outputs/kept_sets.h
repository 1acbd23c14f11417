// Interface of the kernels that make kept sets (kept_sets.cu): marks of rows, and their packing.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/tiles/filtered_rows.h"
#include "fairdraw/kept_sets.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// Marks of the ids that are kept in some rows, and their counts. A row is cut into parts of whole
/// tiles, one block each; the counts tell the block that writes a part's ids where they begin.
struct KeptMarks {
  const std::uint32_t* words = nullptr;  ///< token i at bit (i % 32) of word i / 32
  std::int64_t row_stride = 0;           ///< distance of rows, in words
  std::int64_t rows = 0;
  std::int64_t vocab = 0;          ///< bits from here on mean nothing
  std::int32_t* counts = nullptr;  ///< [rows, parts]
  int parts = 1;                   ///< a power of two
};

/// Maximum number of parts per row. Few rows have more parts each, so that a device has enough
/// blocks; the counts stay few, because every block of a call reads all of them.
inline constexpr int kMostKeptParts = 16;
constexpr int kept_parts(std::int64_t rows) {
  int parts = 1;
  while (parts < kMostKeptParts && parts * rows <= 256) parts *= 2;
  return parts;
}

/// Returns the words of a row of marks in a workspace, whose tiles are whole.
constexpr std::int64_t mark_words_of(std::int64_t vocab) {
  return tiles_of(vocab) * (kTileSize / 32);
}

struct MarkTask {
  FilteredRows filtered;
  TileRows<const std::int32_t> keys;  ///< keys of the tiles of rows that are ok
  KeptMarks marks;
  std::uint32_t* words = nullptr;  ///< the words of `marks`, to be written
};

struct PackTask {
  KeptMarks marks;
  View<const std::int32_t> indices;  ///< optional: output i belongs to row indices[i]
  View<const RowStatus> statuses;    ///< optional, [outputs]: no set if it is not ok
  std::int64_t outputs = 0;
  std::int32_t first_id = 0;  ///< id of the rows' first column
  KeptSets kept;
  std::int32_t* support_size = nullptr;  ///< [outputs], optional
};

/// Enqueues the kernel that marks and counts the survivors of filtered rows; at least one row.
/// Returns the launch's error.
cudaError_t mark_kept(const MarkTask& task, cudaStream_t stream);

/// Enqueues the kernel that counts existing marks; at least one row.
cudaError_t count_kept(const KeptMarks& marks, cudaStream_t stream);

/// Enqueues the kernels that make sets from marks and counts, also for 0 outputs.
cudaError_t pack_kept(const PackTask& task, cudaStream_t stream);

}  // namespace fairdraw::cuda
