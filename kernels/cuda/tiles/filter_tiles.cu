// The launch of filter_tiles.cuh: instances by the form of rows and by input.
#include "cuda/tiles/filter_tiles.cuh"
#include "cuda/tiles/tile_launch.cuh"

namespace fairdraw::cuda {
namespace {

template <RowForm kForm, bool kFromProbs>
cudaError_t launch(const RowsTask& task, const TileSpread& spread, cudaStream_t stream) {
  const SpreadNeeds needs{[tiles = tiles_of(task.rows.vocab)](int threads) {
                            return FilterTilesRow<kForm, kFromProbs>::bytes(threads, tiles);
                          },
                          task.edits.given()};
  return launch_spread<filter_tiles_kernel<kForm.type, kForm.access, kFromProbs>>(
      task.rows.rows, spread, needs, stream, task);
}

}  // namespace

cudaError_t filter_tiles(const RowsTask& task, const TileSpread& spread, cudaStream_t stream) {
  if (spread.threads < kEndThreads) return cudaErrorInvalidConfiguration;
  return launch_for_form(task.rows, [&]<RowForm kForm>() {
    return task.from_probs ? launch<kForm, true>(task, spread, stream)
                           : launch<kForm, false>(task, spread, stream);
  });
}

}  // namespace fairdraw::cuda
