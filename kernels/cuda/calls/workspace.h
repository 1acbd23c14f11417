// Layout of a call's workspace: first the records of filtered rows, then the edits of processed
// rows, the top_p of rows whose top_p decays and the temperature of rows where it follows the
// entropy, then the data for reports of log-probabilities.
#pragma once

#include <cstdint>

#include "common/bump_allocator.h"
#include "cuda/rows/edit_planes.h"
#include "cuda/tiles/filter_rows.h"
#include "fairdraw/cuda.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// Returns whether the rows of a call are processed, or may fail because of their logits
/// processing.
bool is_processed(const LogitsProcessing& processing);

/// Parts of the workspace; a call uses only those that it needs.
struct Workspace {
  RowRecord* records = nullptr;  ///< [rows]
  EditPlanes edits;              ///< not set if the call has no logits processing
  float* top_p = nullptr;        ///< [rows], which is not set if no top_p of the call decays
  /// [rows], which are not set if no temperature of the call follows the entropy
  double* entropy_shares = nullptr;
  float* temperature = nullptr;
  TileIndexResult index;  ///< index of the rows, which is not set if no log-probabilities are
                          ///< reported

  static Workspace of(const SampleRequest& request, bool reports, BumpAllocator& memory);
};

/// Allocates the bits and the edited values of processed rows in a workspace.
EditPlanes edit_planes(std::int64_t rows, std::int64_t vocab, BumpAllocator& memory);

}  // namespace fairdraw::cuda
