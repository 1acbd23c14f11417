// Launches the row kernel of filter_tiles.cuh for calls in which each block has an SM (streaming
// multiprocessor) of its own.
//
// The threads of such a block have 128 registers each instead of 64, so that the functions that
// finish a row spill almost no registers. The launch has a source file of its own, because a device
// function that two kernels call is compiled for the kernel with fewer registers.
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
