// What lies in a call's workspace: records of filtered rows, after them a processed call's edits,
// after those what reports of log-probabilities need.
#pragma once

#include <cstdint>

#include "common/bump_allocator.h"
#include "cuda/tiles/edit_planes.h"
#include "cuda/tiles/filter_rows.h"
#include "fairdraw/cuda.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// True where a call's rows are processed, or where its processing may be what is wrong with them.
bool is_processed(const LogitsProcessing& processing);

/// A call's parts of a workspace.
struct Workspace {
  RowRecord* records = nullptr;  ///< [rows]
  EditPlanes edits;              ///< absent where the call is not processed
  TileIndexResult index;         ///< of the rows; absent where nothing is reported

  static Workspace of(const SampleRequest& request, bool reports, BumpAllocator& memory);
};

/// Where the edits of processed rows go.
EditPlanes edit_planes(std::int64_t rows, std::int64_t vocab, BumpAllocator& memory);

}  // namespace fairdraw::cuda
