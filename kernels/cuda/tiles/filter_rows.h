// Interface of the row kernel, which filters rows of logits or probabilities and draws tokens.
//
// Private to kernels/cuda. The kernel, with its essay, is filter_tiles.cuh.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "common/proposals.h"
#include "common/wide_integers.h"
#include "cuda/tiles/edit_planes.h"
#include "fairdraw/cuda.h"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// A filtered row. Its survivors are the allowed tokens with a value above `low`, and those equal
/// to `low` at a position before `tie_end`; a greedy row has one survivor, `greedy_token`.
struct RowRecord {
  RowStatus status;
  std::int32_t greedy_token;  ///< -1 for rows that are not greedy
  float max;                  ///< the largest allowed value
  float low;
  std::int32_t tie_end;  ///< vocab where no tie is cut
  float floor;           ///< smallest value that min_p keeps, in rows that propose; inf in others
  std::uint64_t total_low;   ///< words of the survivors' weight in the row's unit
  std::uint64_t total_high;  ///< (common/tile_weights.h); neither is set for greedy rows

  __host__ __device__ uint128_t weight() const {
    return (static_cast<uint128_t>(total_high) << 64) | total_low;
  }
};

/// Task of one launch, as the device sees it. All arguments are in range, except for values in
/// device memory.
struct RowsTask {
  RowsView rows;
  bool from_probs = false;
  bool top_k_1_keeps_ties = false;  ///< for the mask and renorm operations
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
  PerRequest<float> temperature = 1.0F;
  PerRequest<std::int32_t> top_k = 0;
  PerRequest<float> top_p = 1.0F;
  PerRequest<float> min_p = 0.0F;
  BitRows<const std::uint32_t> allowed;
  View<const std::uint8_t> active;
  LogitsProcessing processing;  ///< read if `edits` is given
  /// Processing lists have ids of a vocabulary of whole_vocab tokens. The rows are its columns from
  /// first_id on; ids of other columns change nothing. whole_vocab 0: the lists have ids of the
  /// rows.
  int first_id = 0;
  int whole_vocab = 0;
  EditPlanes edits;  ///< written by edit_rows, read by the kernels after it

  // One draw per row, in the same launch; output i is row i. Nothing is drawn if `tokens` is null.
  PerRequest<std::uint64_t> seed = std::uint64_t{0};
  PerRequest<std::uint64_t> offset = std::uint64_t{0};
  Purpose purpose = Purpose::draw;
  const DrawWords* draws = nullptr;      ///< [rows], optional: in place of seed, offset and purpose
  const std::uint64_t* words = nullptr;  ///< [rows], optional: words of draws by a threshold
  std::int32_t* tokens = nullptr;        ///< [rows]; random bits as for num_samples = 1
  RowStatus* statuses = nullptr;         ///< [rows], optional; written with the tokens

  RowRecord* records = nullptr;  ///< [rows], optional: for later kernels
  TileRows<std::int32_t> keys;   ///< optional: keys of the tiles of rows that are ok, for later
                                 ///< kernels
};

/// Enqueues the row kernel. rows.rows in [1, 2^22). Returns the launch's error.
cudaError_t filter_rows(const RowsTask& task, Path path, cudaStream_t stream);

}  // namespace fairdraw::cuda
