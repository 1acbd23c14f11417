// Rows that the row kernel has filtered, in the form in which later kernels read them.
#pragma once

#include "cuda/tiles/filter_rows.h"

namespace fairdraw::cuda {

struct FilteredRows {
  RowsView rows;
  bool from_probs = false;
  PerRequest<float> temperature = 1.0F;
  BitRows<const std::uint32_t> allowed;  ///< optional; null if the rows have edits, which include
                                         ///< the allowed bits
  EditPlanes edits;                      ///< edits of the rows in calls with logits processing
  const RowRecord* records = nullptr;    ///< one per row
};

}  // namespace fairdraw::cuda
