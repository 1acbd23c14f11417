// The launch of filter_tiles.cuh: instances by dtype and input, and how a row is spread.
#include "cuda/device/row_launch.h"
#include "cuda/tiles/filter_tiles.cuh"

namespace fairdraw::cuda {
namespace {

template <DType kType, bool kFromProbs, int kThreads>
cudaError_t launch(const FilterTilesTask& task, int blocks, cudaStream_t stream) {
  auto* kernel = filter_tiles_of_rows<kType, kFromProbs, kThreads>;
  const int bytes = filter_tiles_bytes((task.rows.vocab + kTileSize - 1) / kTileSize);
  cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error == cudaSuccess && blocks > 8) {
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  }
  if (error != cudaSuccess) return error;
  const ClusterLaunch launch(task.rows.rows, blocks, kThreads, bytes, stream);
  return cudaLaunchKernelEx(&launch.config, kernel, task, blocks);
}

template <DType kType, bool kFromProbs>
cudaError_t launch(const FilterTilesTask& task, const FilterTilesShape& shape,
                   cudaStream_t stream) {
  return shape.threads == 256 ? launch<kType, kFromProbs, 256>(task, shape.blocks, stream)
                              : launch<kType, kFromProbs, 512>(task, shape.blocks, stream);
}

template <DType kType>
cudaError_t launch(const FilterTilesTask& task, const FilterTilesShape& shape,
                   cudaStream_t stream) {
  return task.from_probs ? launch<kType, true>(task, shape, stream)
                         : launch<kType, false>(task, shape, stream);
}

}  // namespace

cudaError_t filter_tiles(const FilterTilesTask& task, const FilterTilesShape& shape,
                         cudaStream_t stream) {
  switch (task.rows.dtype) {
    case DType::float16:
      return launch<DType::float16>(task, shape, stream);
    case DType::bfloat16:
      return launch<DType::bfloat16>(task, shape, stream);
    case DType::float32:
      break;
  }
  return launch<DType::float32>(task, shape, stream);
}

}  // namespace fairdraw::cuda
