// The launch of filter_tiles.cuh: instances by the form of rows and by input.
#include "cuda/tiles/filter_tiles.cuh"
#include "cuda/tiles/tile_launch.cuh"

namespace fairdraw::cuda {
namespace {

/// Whether blocks of the call take all of a multiprocessor's shared memory: for a longer list of
/// values near a nucleus' threshold. V = 262144, 96 rows, H100: top_p 0.9 flat takes 164 us for
/// 216, 0.99 peaked 169 for 213. Other rows would be slower: the L1 that is left has less room for
/// registers (by 3 to 5 %), and clusters of 4 and more find fewer places (32 rows of V = 128256:
/// 106 us for 69).
bool wants_long_list(const TileSpread& spread, std::int64_t tiles) {
  constexpr std::int64_t kManyTiles = 640;
  return spread.alone && spread.blocks <= 2 && tiles > kManyTiles;
}

template <RowForm kForm, bool kFromProbs>
cudaError_t launch(const RowsTask& task, const TileSpread& spread, cudaStream_t stream) {
  using Row = FilterTilesRow<kForm, kFromProbs>;
  constexpr auto* kKernel = filter_tiles_kernel<kForm.type, kForm.access, kFromProbs>;
  const std::int64_t tiles = tiles_of(task.rows.vocab);
  KernelLimits limits;  // none
  if (wants_long_list(spread, tiles)) {
    if (const cudaError_t error = find_limits<kKernel>(limits); error != cudaSuccess) return error;
  }
  RowsTask placed = task;
  placed.bounds_nuclei = spread.bounds_nuclei;
  placed.middle_bytes =
      middle_bytes(tiles, Row::other_bytes(spread.threads, tiles), limits.dynamic_bytes);
  const SpreadNeeds needs{
      [&](int threads) { return Row::other_bytes(threads, tiles) + placed.middle_bytes; },
      task.edits.given()};
  return launch_spread<kKernel>(task.rows.rows, spread, needs, stream, placed);
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
