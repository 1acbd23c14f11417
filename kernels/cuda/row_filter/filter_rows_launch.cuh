// Launches of the row kernel for one dtype. Each is compiled in a file of its own, because they
// take long.
#pragma once

#include "cuda/device/row_launch.h"
#include "cuda/row_filter/filter_rows.cuh"
#include "cuda/row_filter/row_shape.h"

namespace fairdraw::cuda {

template <DType kType, bool kFromProbs, bool kProcessed, int kThreads>
cudaError_t launch_with_threads(const RowsTask& task, const Spread& spread, cudaStream_t stream) {
  static_assert(sizeof(BlockMemory<kThreads>) <= kStaticBytes);
  const RowShape& shape = spread.shape;
  const auto kernel = filter_rows_kernel<kType, kFromProbs, kThreads, kProcessed>;
  // The device's limit, not this launch's bytes: the attribute is the kernel's, for all threads.
  const cudaError_t error = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, spread.most_dynamic_bytes);
  if (error != cudaSuccess) return error;
  ClusterLaunch launch(task.rows.rows, shape.blocks, kThreads, dynamic_bytes(shape, kThreads),
                       stream);
  // Compute capability 9.0. What a launch reads before it waits for the one before must be older.
  if (kProcessed && shape.bulk_copies && task.noted == nullptr) launch.start_early();
  return cudaLaunchKernelEx(&launch.config, kernel, task, shape);
}

template <DType kType, bool kFromProbs, bool kProcessed>
cudaError_t launch_filter_rows(const RowsTask& task, const Spread& spread, cudaStream_t stream) {
  return spread.threads == 1024
             ? launch_with_threads<kType, kFromProbs, kProcessed, 1024>(task, spread, stream)
             : launch_with_threads<kType, kFromProbs, kProcessed, 512>(task, spread, stream);
}

}  // namespace fairdraw::cuda
