// Rows that the row kernel has filtered, as the kernels after it get them.
#pragma once

#include "cuda/tiles/filter_rows.h"

namespace fairdraw::cuda {

struct FilteredRows {
  RowsView rows;
  bool from_probs = false;
  PerRequest<float> temperature = 1.0F;
  BitRows<const std::uint32_t> allowed;  ///< optional; null where there are edits, which hold it
  EditPlanes edits;                      ///< of a processed call
  const RowRecord* records = nullptr;    ///< one a row
};

}  // namespace fairdraw::cuda
