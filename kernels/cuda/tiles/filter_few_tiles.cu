// Launches the row kernel of filter_tiles.cuh for calls in which each block has an SM (streaming
// multiprocessor) of its own.
//
// The threads of such a block have 128 registers each instead of 64, so that the functions that
// finish a row spill almost no registers. The launch has a source file of its own, because a device
// function that two kernels call is compiled for the kernel with fewer registers.
#include <algorithm>

#include "cuda/tiles/filter_tiles.cuh"

namespace fairdraw::cuda {

bool few_tiles_run_at_once(const RowsTask& task, const TileSpread& spread) {
  KernelLimits limits;
  const cudaError_t error = launch_for_type(task.rows.dtype, [&]<DType kType>() {
    constexpr auto kAccess = TileAccess::vectors;
    return task.from_probs ? find_limits<filter_tiles_kernel<kType, kAccess, true, 1>>(limits)
                           : find_limits<filter_tiles_kernel<kType, kAccess, false, 1>>(limits);
  });
  return error == cudaSuccess &&
         limits.runs_at_once(task.rows.rows, std::min<int>(spread.blocks, limits.blocks));
}

cudaError_t filter_few_tiles(const RowsTask& task, const TileSpread& spread, cudaStream_t stream) {
  return launch_for_type(task.rows.dtype, [&]<DType kType>() {
    constexpr RowForm kForm{kType, TileAccess::vectors};
    return task.from_probs ? launch_filter_tiles<kForm, true, 1>(task, spread, stream)
                           : launch_filter_tiles<kForm, false, 1>(task, spread, stream);
  });
}

}  // namespace fairdraw::cuda
