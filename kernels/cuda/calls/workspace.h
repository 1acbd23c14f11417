// What lies in a call's workspace: records of filtered rows, after them a processed call's edits,
// after those what reports of log-probabilities need, and what kept sets do.
#pragma once

#include <cstdint>

#include "common/bump_allocator.h"
#include "cuda/outputs/kept_sets.h"
#include "cuda/tiles/edit_planes.h"
#include "cuda/tiles/filter_rows.h"
#include "fairdraw/cuda.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// True where a call's rows are processed, or where its processing may be what is wrong with them.
bool is_processed(const LogitsProcessing& processing);

/// What a call has besides its rows.
struct WorkspaceNeeds {
  bool reports = false;  ///< log-probabilities
  bool kept = false;     ///< kept sets
};

/// Of kept sets of rows.
struct KeptWorkspace {
  TileRows<std::int32_t> keys;     ///< the row kernel's
  std::uint32_t* words = nullptr;  ///< the marks
  KeptMarks marks;

  static KeptWorkspace of(std::int64_t rows, std::int64_t vocab, BumpAllocator& memory);
};

/// A call's parts of a workspace.
struct Workspace {
  RowRecord* records = nullptr;  ///< [rows]
  EditPlanes edits;              ///< absent where the call is not processed
  TileIndexResult index;         ///< of the rows; absent where nothing is reported
  KeptWorkspace kept;            ///< absent where no sets are asked for

  static Workspace of(const SampleRequest& request, const WorkspaceNeeds& needs,
                      BumpAllocator& memory);
};

/// Where the edits of processed rows go.
EditPlanes edit_planes(std::int64_t rows, std::int64_t vocab, BumpAllocator& memory);

}  // namespace fairdraw::cuda
