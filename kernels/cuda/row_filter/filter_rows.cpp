// Host side of the row filter: how a call is spread over the GPU, and its launch.
#include "cuda/row_filter/filter_rows.h"

#include <cstdint>

#include "cuda/row_filter/row_limits.h"
#include "cuda/tiles/filter_tiles.h"
#include "cuda/tiles/sample_tiles.h"
#include "cuda/tiles/tile_spread.h"

namespace fairdraw::cuda {

std::int64_t vectors_of(const RowsView& rows) {
  const int values = rows.dtype == DType::float32 ? 4 : 8;
  const bool aligned = reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 &&
                       (rows.rows == 1 || rows.row_stride % values == 0);
  return (rows.vocab + (aligned ? values - 1 : 2 * values - 2)) / values;
}

cudaError_t limits_of_device(GpuLimits& gpu) {
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  const auto ask = [&](int& value, cudaDeviceAttr attribute) {
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&value, attribute, device);
  };
  ask(gpu.multiprocessors, cudaDevAttrMultiProcessorCount);
  ask(gpu.shared_bytes_of_block, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  ask(gpu.shared_bytes_of_multiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  return error;
}

cudaError_t filter_rows(const RowsTask& task, Path path, cudaStream_t stream) {
  TileSpread spread;
  if (const cudaError_t error = best_spread(task.rows, path, spread); error != cudaSuccess) {
    return error;
  }
  return sample_tiles_takes(task) ? sample_tiles(task, spread, stream)
                                  : filter_tiles(task, spread, stream);
}

}  // namespace fairdraw::cuda
