// Host side of the row kernel, which chooses how the rows of a call are distributed over the GPU's
// blocks.
#include "cuda/tiles/filter_rows.h"

#include "cuda/tiles/filter_tiles.h"
#include "cuda/tiles/tile_spread.h"

namespace fairdraw::cuda {

cudaError_t filter_rows(const RowsTask& task, Path path, cudaStream_t stream) {
  TileSpread spread;
  if (const cudaError_t error = best_spread(task.rows, path, spread); error != cudaSuccess) {
    return error;
  }
  return filter_tiles(task, spread, stream);
}

}  // namespace fairdraw::cuda
