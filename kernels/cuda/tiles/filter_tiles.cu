// Launches the row kernel of filter_tiles.cuh; there is one instance of the kernel per form of rows
// and kind of input.
#include "cuda/tiles/filter_tiles.cuh"

namespace fairdraw::cuda {

cudaError_t filter_rows(const RowsTask& task, Path path, cudaStream_t stream) {
  TileSpread spread;
  if (const cudaError_t error = best_spread(task.rows, path, spread); error != cudaSuccess) {
    return error;
  }
  return filter_tiles(task, spread, stream);
}

cudaError_t filter_tiles(const RowsTask& task, const TileSpread& spread, cudaStream_t stream) {
  if (spread.threads < kEndThreads) return cudaErrorInvalidConfiguration;
  if (spread.is_alone && access_of(task.rows) == TileAccess::vectors &&
      few_tiles_run_at_once(task, spread)) {
    return filter_few_tiles(task, spread, stream);
  }
  return launch_for_form(task.rows, [&]<RowForm kForm>() {
    return task.from_probs ? launch_filter_tiles<kForm, true, 2>(task, spread, stream)
                           : launch_filter_tiles<kForm, false, 2>(task, spread, stream);
  });
}

}  // namespace fairdraw::cuda
