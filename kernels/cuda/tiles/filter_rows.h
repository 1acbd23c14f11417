// Interface of the row kernel, which filters rows of logits or probabilities and draws tokens.
//
// Private to kernels/cuda. The kernel and its description are in filter_tiles.cuh.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "common/proposals.h"
#include "common/wide_integers.h"
#include "cuda/tiles/edit_planes.h"
#include "fairdraw/cuda.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// A filtered row. The survivors of the row are the allowed tokens with a value above `low`, and
/// those with a value equal to `low` and an id before `tie_end`; a greedy row has one survivor,
/// `greedy_token`.
struct RowRecord {
  RowStatus status;
  std::int32_t greedy_token;  ///< token of a greedy row; -1 for other rows
  float max;                  ///< largest allowed value of the row
  float low;
  std::int32_t tie_end;  ///< id from which on ties are dropped; vocab if no tie is dropped
  float floor;  ///< smallest value that min_p keeps, in rows that draw by proposals; inf in other
                ///< rows
  std::uint64_t total_low;   ///< low word of the survivors' weight in the row's unit
  std::uint64_t total_high;  ///< high word of the weight (common/tile_weights.h); neither word is
                             ///< set for greedy rows

  __host__ __device__ uint128_t weight() const {
    return (static_cast<uint128_t>(total_high) << 64) | total_low;
  }
};

/// Arguments of one launch of the row kernel. All arguments are in range, except for values in
/// device memory.
struct RowsTask {
  RowsView rows;
  bool from_probs = false;
  bool top_k_1_keeps_ties = false;  ///< whether top_k 1 keeps ties, as in the mask and renorm
                                    ///< operations
  PerRequest<TieRule> tie_rule = TieRule::keep_all;
  PerRequest<FilterOrder> filter_order = FilterOrder::top_k_first;
  PerRequest<float> temperature = 1.0F;
  PerRequest<std::int32_t> top_k = 0;
  PerRequest<float> top_p = 1.0F;
  PerRequest<float> min_p = 0.0F;
  BitRows<const std::uint32_t> allowed;
  View<const std::uint8_t> active;
  LogitsProcessing processing;  ///< logits processing, which is read if `edits` is given
  /// Processing lists contain ids of a vocabulary of whole_vocab tokens. The rows are the columns
  /// of this vocabulary from first_id on; ids of other columns have no effect. whole_vocab 0: the
  /// lists contain ids of the rows.
  int first_id = 0;
  int whole_vocab = 0;
  EditPlanes edits;  ///< written by edit_rows, and read by the kernels after it

  // One token is drawn per row, in the same launch; output i belongs to row i. No token is drawn if
  // `tokens` is null.
  PerRequest<std::uint64_t> seed = std::uint64_t{0};
  PerRequest<std::uint64_t> offset = std::uint64_t{0};
  Purpose purpose = Purpose::draw;
  const DrawWords* draws = nullptr;  ///< [rows], optional: words of draws that replace seed, offset
                                     ///< and purpose
  const std::uint64_t* words = nullptr;  ///< [rows], optional: random words of draws by a threshold
  std::int32_t* tokens = nullptr;  ///< [rows], drawn tokens; random bits are those for num_samples
                                   ///< = 1
  RowStatus* statuses = nullptr;   ///< [rows], optional; statuses, which are written together with
                                   ///< the tokens

  RowRecord* records = nullptr;  ///< [rows], optional: records of rows for later kernels
  TileRows<std::int32_t> keys;   ///< optional: keys of the tiles of rows that are ok, for later
                                 ///< kernels
};

/// Enqueues the row kernel. rows.rows in [1, 2^22). Returns the launch's CUDA error.
cudaError_t filter_rows(const RowsTask& task, Path path, cudaStream_t stream);

}  // namespace fairdraw::cuda
