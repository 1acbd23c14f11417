// Rows that the row kernel has filtered, in the form in which later kernels read them.
#pragma once

#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/rows/edit_planes.h"
#include "fairdraw/cuda.h"

namespace fairdraw::cuda {

/// A filtered row. The row's survivors are the allowed tokens with a value above `low`, and the
/// allowed tokens with a value equal to `low` and an id below `tie_end`; a greedy row has one
/// survivor, `greedy_token`.
struct RowRecord {
  RowStatus status;
  std::int32_t greedy_token;  ///< token of a greedy row; -1 for other rows
  float max;                  ///< largest allowed value of the row
  float low;
  std::int32_t tie_end;  ///< tokens equal to `low` with ids from this one on are dropped; vocab if
                         ///< no tied token is dropped
  float floor;  ///< smallest value that min_p keeps if the row draws by proposals; infinity in
                ///< other rows
  std::uint64_t total_low;   ///< low 64 bits of the survivors' weight in the row's unit
  std::uint64_t total_high;  ///< high 64 bits of this weight (common/tile_weights.h); neither word
                             ///< is set for greedy rows

  __host__ __device__ uint128_t weight() const {
    return (static_cast<uint128_t>(total_high) << 64) | total_low;
  }
};

/// Filtered rows of a call.
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
