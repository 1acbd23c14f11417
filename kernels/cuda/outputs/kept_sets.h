// Interface of the kernels that make kept sets (kept_sets.cu): marks of rows, and their packing.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/tiles/filtered_rows.h"
#include "fairdraw/kept_sets.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// Which ids of some rows are kept, and how many. A row is cut into parts of whole tiles, a block
/// each; a part's count lets the block that writes its ids know where they begin.
struct KeptMarks {
  const std::uint32_t* words = nullptr;  ///< token i at bit (i % 32) of word i / 32
  std::int64_t row_stride = 0;           ///< in words
  std::int64_t rows = 0;
  std::int64_t vocab = 0;          ///< bits at or beyond it mean nothing
  std::int32_t* counts = nullptr;  ///< [rows, parts]
  int parts = 1;                   ///< a power of two
};

/// Parts of each of some rows: blocks that a device has at once, and few counts where rows are few,
/// for every block of a call reads all of them.
inline constexpr int kMostKeptParts = 16;
constexpr int kept_parts(std::int64_t rows) {
  int parts = 1;
  while (parts < kMostKeptParts && parts * rows <= 256) parts *= 2;
  return parts;
}

/// Words of a row of marks in a workspace: its tiles are whole.
constexpr std::int64_t mark_words_of(std::int64_t vocab) {
  return tiles_of(vocab) * (kTileSize / 32);
}

struct MarkTask {
  FilteredRows filtered;
  TileRows<const std::int32_t> keys;  ///< of the tiles of rows that are ok
  KeptMarks marks;
  std::uint32_t* words = nullptr;  ///< those of `marks`, to be written
};

struct PackTask {
  KeptMarks marks;
  View<const std::int32_t> indices;  ///< optional: output i is of row indices[i]
  View<const RowStatus> statuses;    ///< optional, [outputs]: no set where it is not ok
  std::int64_t outputs = 0;
  std::int32_t first_id = 0;  ///< of the rows: what is added to their columns
  KeptSets kept;
  std::int32_t* support_size = nullptr;  ///< [outputs], optional
};

/// Enqueues the kernel that marks the survivors of filtered rows and counts them; at least one row.
/// Returns the launch's error.
cudaError_t mark_kept(const MarkTask& task, cudaStream_t stream);

/// Enqueues the kernel that counts marks which are there already; at least one row.
cudaError_t count_kept(const KeptMarks& marks, cudaStream_t stream);

/// Enqueues what makes sets of marks and counts, for 0 outputs too.
cudaError_t pack_kept(const PackTask& task, cudaStream_t stream);

}  // namespace fairdraw::cuda
