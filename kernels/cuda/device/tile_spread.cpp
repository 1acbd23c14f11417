#include "cuda/device/tile_spread.h"

#include <cstdint>

#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {
// Measured on an H200, V = 128256, float32: microseconds of a draw without filters, by the number
// of blocks per row. One row took 9.5 at 16 blocks; 8 rows took 11.7 at 16, 11.1 at 8, 12.9 at 4;
// 64 rows took 26.3 at 8, 25.3 at 4, 20.5 at 2; 256 rows took 59 at 4, 56 at 2, 52 at 1. If there
// are few rows, each row is divided into many parts, because the call takes the time of a single
// row. If there are many rows, each SM gets whole rows, because the blocks of a divided row have to
// exchange data. With clusters of 16 blocks, some SMs stay idle if several clusters have to fit on
// the GPU.
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
  const auto fits = [&](int blocks) {  // the blocks fit on the SMs, and each warp has at least one
                                       // tile
    const int room = blocks == kMaxBlocksOfRow ? multiprocessors / 2 : multiprocessors;
    return rows.rows * blocks <= room && blocks / 2 * warps < tiles_of(rows.vocab);
  };
  while (takes_clusters && 2 * spread.blocks <= kMaxBlocksOfRow && fits(2 * spread.blocks)) {
    spread.blocks *= 2;
  }
  spread.is_alone = rows.rows * spread.blocks <= multiprocessors;
  return error;
}

}  // namespace fairdraw::cuda
