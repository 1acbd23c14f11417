// Launch of the row kernel in filter_tiles.cuh for calls whose blocks each have an SM.
//
// A block that shares no SM has 128 registers per thread instead of 64, so that the functions that
// finish a row spill next to nothing. A source of its own, because a device function that two
// kernels call is compiled for the fewer registers of both.
#include "cuda/tiles/filter_tiles.cuh"

namespace fairdraw::cuda {

cudaError_t filter_few_tiles(const RowsTask& task, const TileSpread& spread, cudaStream_t stream) {
  return launch_for_type(task.rows.dtype, [&]<DType kType>() {
    constexpr RowForm kForm{kType, TileAccess::vectors};
    return task.from_probs ? launch_filter_tiles<kForm, true, 1>(task, spread, stream)
                           : launch_filter_tiles<kForm, false, 1>(task, spread, stream);
  });
}

}  // namespace fairdraw::cuda
