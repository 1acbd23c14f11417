// The launch of filter_tiles.cuh: instances by dtype and input.
#include "cuda/tiles/filter_tiles.cuh"
#include "cuda/tiles/tile_launch.cuh"

namespace fairdraw::cuda {
namespace {

template <DType kType, bool kFromProbs>
cudaError_t launch(const RowsTask& task, const TileSpread& spread, cudaStream_t stream) {
  const SpreadNeeds needs{[tiles = tiles_of(task.rows.vocab)](int threads) {
                            return FilterTilesRow<kType, kFromProbs>::bytes(threads, tiles);
                          },
                          task.edits.given()};
  return launch_spread<filter_tiles_kernel<kType, kFromProbs>>(task.rows.rows, spread, needs,
                                                               stream, task);
}

template <bool kFromProbs>
cudaError_t launch_for_dtype(const RowsTask& task, const TileSpread& spread, cudaStream_t stream) {
  switch (task.rows.dtype) {
    case DType::float16:
      return launch<DType::float16, kFromProbs>(task, spread, stream);
    case DType::bfloat16:
      return launch<DType::bfloat16, kFromProbs>(task, spread, stream);
    case DType::float32:
      break;
  }
  return launch<DType::float32, kFromProbs>(task, spread, stream);
}

}  // namespace

cudaError_t filter_tiles(const RowsTask& task, const TileSpread& spread, cudaStream_t stream) {
  if (spread.threads < kEndThreads) return cudaErrorInvalidConfiguration;
  return task.from_probs ? launch_for_dtype<true>(task, spread, stream)
                         : launch_for_dtype<false>(task, spread, stream);
}

}  // namespace fairdraw::cuda
