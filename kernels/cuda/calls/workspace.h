// Layout of a call's workspace: records of filtered rows, then the edits of processed rows, then
// the data for reports of log-probabilities.
#pragma once

#include <cstdint>

#include "common/bump_allocator.h"
#include "cuda/tiles/edit_planes.h"
#include "cuda/tiles/filter_rows.h"
#include "fairdraw/cuda.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// Returns whether a call's rows are processed, or may fail because of its processing.
bool is_processed(const LogitsProcessing& processing);

/// Parts of the workspace, of which a call uses those that it needs.
struct Workspace {
  RowRecord* records = nullptr;  ///< [rows]
  EditPlanes edits;              ///< not set if the call is not processed
  TileIndexResult index;  ///< index of the rows; not set if no log-probabilities are reported

  static Workspace of(const SampleRequest& request, bool reports, BumpAllocator& memory);
};

/// Allocates bits and edited values of processed rows in a workspace.
EditPlanes edit_planes(std::int64_t rows, std::int64_t vocab, BumpAllocator& memory);

}  // namespace fairdraw::cuda
