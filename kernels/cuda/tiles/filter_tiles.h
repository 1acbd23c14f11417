// Rows filtered by min_p, top_k and top_p, and one token drawn of each: the launch
// (filter_tiles.cu).
//
// Private to kernels/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/tiles/tile_spread.h"
#include "fairdraw/cuda.h"

namespace fairdraw::cuda {

/// Who survives in a row: allowed tokens with values above `low`, and those equal to it with ids
/// before tie_end; of greedy rows one token alone.
struct FilteredTiles {
  RowStatus status;
  std::int32_t greedy_token;  ///< -1 for rows that are not greedy
  float low;
  std::int32_t tie_end;      ///< vocab where no tie is cut
  std::uint64_t total_low;   ///< weight of the survivors in the row's unit (common/tile_weights.h)
  std::uint64_t total_high;  ///< neither is set for greedy rows
};

/// Everything is in range but what lies in device memory.
struct FilterTilesTask {
  RowsView rows;
  bool from_probs = false;
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
  PerRequest<float> temperature = 1.0F;
  PerRequest<std::int32_t> top_k = 0;
  PerRequest<float> top_p = 1.0F;
  PerRequest<float> min_p = 0.0F;
  BitRows<const std::uint32_t> allowed;
  View<const std::uint8_t> active;
  PerRequest<std::uint64_t> seed = std::uint64_t{0};
  PerRequest<std::uint64_t> offset = std::uint64_t{0};
  Purpose purpose = Purpose::draw;
  const std::uint64_t* words = nullptr;  ///< [rows], optional: random words in place of the seeds'
  std::int32_t* tokens = nullptr;        ///< [rows]
  RowStatus* statuses = nullptr;         ///< [rows], optional
  FilteredTiles* records = nullptr;      ///< [rows], optional
};

/// Enqueues the kernel. rows.rows in [1, 2^22); spread.threads at least 256. Returns the launch's
/// error.
cudaError_t filter_tiles(const FilterTilesTask& task, const TileSpread& spread,
                         cudaStream_t stream);

}  // namespace fairdraw::cuda
