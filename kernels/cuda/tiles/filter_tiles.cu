// Launch of the row kernel in filter_tiles.cuh, with an instance per form of the rows and kind of
// input.
#include "cuda/tiles/filter_tiles.cuh"
#include "cuda/tiles/tile_launch.cuh"

namespace fairdraw::cuda {
namespace {

template <RowForm kForm, bool kFromProbs>
cudaError_t launch(const RowsTask& task, const TileSpread& spread, cudaStream_t stream) {
  using Row = FilterTilesRow<kForm, kFromProbs>;
  constexpr auto* kKernel = filter_tiles_kernel<kForm.type, kForm.access, kFromProbs>;
  const std::int64_t tiles = tiles_of(task.rows.vocab);
  const SpreadNeeds needs{[&](int threads) { return Row::dynamic_bytes(threads, tiles); },
                          task.edits.given()};
  return launch_spread<kKernel>(task.rows.rows, spread, needs, stream, task);
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
