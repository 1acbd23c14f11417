// Launches of kernels whose blocks share a row's tiles.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>

#include "cuda/device/device_pointers.h"
#include "cuda/device/row_cluster.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/tiles/tile_spread.h"

namespace fairdraw::cuda {

/// Whether the current device schedules clusters of kMaxBlocksOfRow blocks of a kernel.
template <class... Parameters>
bool schedules_largest_clusters(void (*kernel)(Parameters...), int dynamic_bytes) {
  const ClusterLaunch one(1, kMaxBlocksOfRow, kMaxThreadsOfBlock, dynamic_bytes, nullptr);
  int resident = 0;
  cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveClusters(&resident, kernel, &one.config);
  }
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());  // there are none
  return error == cudaSuccess && resident > 0;
}

/// Allows a kernel all shared memory that the current device has for a block, and finds out how
/// many blocks of a row it takes then. Asked once a kernel, device and process: the answer takes
/// longer than a launch.
template <auto* kKernel>
cudaError_t most_blocks_of_row(int& blocks) {
  constexpr int kKnown = 64;
  static std::array<std::atomic<int>, kKnown> known{};  // 0: not asked yet
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  std::atomic<int>* slot = device < kKnown ? &known[static_cast<std::size_t>(device)] : nullptr;
  blocks = slot != nullptr ? slot->load(std::memory_order_relaxed) : 0;
  if (blocks > 0) return cudaSuccess;
  const RelaxedCapture relaxed;
  int dynamic_bytes = 0;
  error = cudaDeviceGetAttribute(&dynamic_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  cudaFuncAttributes attributes{};
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, kKernel);
  if (error != cudaSuccess) return error;
  dynamic_bytes -= static_cast<int>(attributes.sharedSizeBytes);
  error = cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic_bytes);
  if (error != cudaSuccess) return error;
  blocks = schedules_largest_clusters(kKernel, dynamic_bytes) ? kMaxBlocksOfRow : kMaxBlocks;
  if (slot != nullptr) slot->store(blocks, std::memory_order_relaxed);
  return cudaSuccess;
}

/// What a launch needs besides its arguments.
struct SpreadNeeds {
  int dynamic_bytes;          ///< of shared memory a block
  bool starts_early = false;  ///< while the stream's kernel before it runs
};

/// Enqueues kKernel(arguments..., log2 of a row's blocks) over `rows` rows.
template <auto* kKernel, class... Arguments>
cudaError_t launch_spread(std::int64_t rows, const TileSpread& spread, const SpreadNeeds& needs,
                          cudaStream_t stream, const Arguments&... arguments) {
  int blocks = 0;
  const cudaError_t error = most_blocks_of_row<kKernel>(blocks);
  if (error != cudaSuccess) return error;
  blocks = blocks < spread.blocks ? blocks : spread.blocks;
  ClusterLaunch launch(rows, blocks, spread.threads, needs.dynamic_bytes, stream);
  if (needs.starts_early) launch.start_early();
  return cudaLaunchKernelEx(&launch.config, kKernel, arguments...,
                            std::countr_zero(static_cast<unsigned>(blocks)));
}

}  // namespace fairdraw::cuda
