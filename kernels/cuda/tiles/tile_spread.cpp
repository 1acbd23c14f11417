#include "cuda/tiles/tile_spread.h"

#include <cstdint>

#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {
// By measurement on an H200, V = 128256, float32, microseconds of a draw without filters, blocks a
// row 16, 8, 4, 2, 1: one row 9.5 at 16; 8 rows 11.7, 11.1, 12.9 at 4; 64 rows 26.3 at
// 8, 25.3, 20.5 at 2; 256 rows 59 at 4, 56, 52. Few rows are cut into many parts, because time is
// what one row takes; of many, each multiprocessor takes its own, because every part costs an
// exchange. A cluster of 16 leaves multiprocessors idle where several have to fit.
cudaError_t best_spread(const RowsView& rows, Path path, TileSpread& spread) {
  spread = {};
  int device = 0;
  int multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  const bool takes_clusters = path != Path::block;
  const std::int64_t warps = spread.threads / 32;
  const auto fits = [&](int blocks) {  // and each warp has a tile
    const int room = blocks == kMaxBlocksOfRow ? multiprocessors / 2 : multiprocessors;
    return rows.rows * blocks <= room && blocks / 2 * warps < tiles_of(rows.vocab);
  };
  while (takes_clusters && 2 * spread.blocks <= kMaxBlocksOfRow && fits(2 * spread.blocks)) {
    spread.blocks *= 2;
  }
  return error;
}

}  // namespace fairdraw::cuda
