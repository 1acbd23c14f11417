#include "cuda/tiles/tile_spread.h"

#include <cstdint>

#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {
namespace {

/// Whether rows with top_p alone look for a bound of a small nucleus. A call takes as long as its
/// slowest row, unless there are more blocks than run at once; and a large nucleus takes longer
/// beside small ones, whose blocks do not bring its code into L2. Rows of a trained model (V =
/// 50304, temperature 0.7, top_p 0.9; 5 in 6 have a bound), H100, us with bounds and without: one
/// row 14 and 33; the 8 sharpest 15 and 31; then 24 rows 40 and 36, 48 rows 55 and 47, 96 rows 65
/// and 59, 192 rows 79 and 77, 384 rows 115 and 142.
bool wants_bounds(std::int64_t rows, int blocks, int multiprocessors) {
  constexpr std::int64_t kFew = 8;
  constexpr std::int64_t kAtOnce = 2;  // blocks of a multiprocessor
  return rows <= kFew || rows * blocks > kAtOnce * multiprocessors;
}

}  // namespace

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
  spread.alone = rows.rows * spread.blocks <= multiprocessors;
  spread.bounds_nuclei = wants_bounds(rows.rows, spread.blocks, multiprocessors);
  return error;
}

}  // namespace fairdraw::cuda
