// What lies in a call's workspace: records of filtered rows, and behind them a processed call's
// edits.
#pragma once

#include "edit_planes.h"
#include "fairdraw/cuda.h"
#include "filter_rows.h"

namespace fairdraw::cuda {

/// True where a call's rows are processed, or where its processing may be what is wrong with them.
bool is_processed(const LogitsProcessing& processing);

/// The call's parts of a workspace that is large enough.
struct Workspace {
  RowRecord* records = nullptr;  ///< [rows]
  EditPlanes edits;              ///< absent where the call is not processed

  static Workspace of(const SampleRequest& request, void* memory);
};

}  // namespace fairdraw::cuda
