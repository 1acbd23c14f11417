// Interface of the kernels that draw tokens by tiles, without top_k and top_p (sample_tiles.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/tiles/tile_spread.h"
#include "fairdraw/cuda.h"

namespace fairdraw::cuda {

/// What is kept of a row for the outputs that share it.
struct TileRecord {
  RowStatus status;
  std::int32_t greedy_token;  ///< -1 for rows that are not greedy
  std::int32_t largest_key;
};

/// Indexes of rows in the workspace, of survivors alone; needed with `indices`.
struct KeptIndexes {
  TileRecord* records = nullptr;  ///< [rows]
  std::int32_t* keys = nullptr;   ///< [rows, tiles]
  std::uint64_t* sums = nullptr;  ///< [rows, tiles]
};

/// What to sample. Everything is in range except for what lies in device memory.
struct TileSampleTask {
  RowsView rows;
  bool from_probs = false;
  PerRequest<float> temperature = 1.0F;
  PerRequest<float> min_p = 0.0F;
  BitRows<const std::uint32_t> allowed;
  View<const std::uint8_t> active;

  View<const std::int32_t> indices;  ///< optional: output i is of row indices[i]
  std::int64_t outputs = 0;          ///< as many as rows without indices
  std::int64_t num_samples = 1;
  PerRequest<std::uint64_t> seed = std::uint64_t{0};
  PerRequest<std::uint64_t> offset = std::uint64_t{0};
  Purpose purpose = Purpose::draw;
  std::int32_t* tokens = nullptr;  ///< [outputs, num_samples]
  RowStatus* statuses = nullptr;   ///< [outputs], optional
  KeptIndexes kept;
};

/// Enqueues the kernels; rows >= 1, outputs >= 1. Returns the launch's error.
cudaError_t sample_tiles(const TileSampleTask& task, const TileSpread& spread, cudaStream_t stream);

}  // namespace fairdraw::cuda
