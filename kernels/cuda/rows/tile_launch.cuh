// Launches of kernels whose blocks share the tiles of a row.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "cuda/device/device_pointers.h"
#include "cuda/device/row_cluster.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/device/tile_spread.h"
#include "cuda/rows/tile_values.cuh"

namespace fairdraw::cuda {

/// Returns the number of clusters of `blocks` blocks of a kernel that the current device runs at
/// once, with the maximum number of threads for which the kernel is compiled; 0 if there are none.
template <class... Parameters>
int resident_clusters(void (*kernel)(Parameters...), int blocks, int threads, int dynamic_bytes) {
  const ClusterLaunch one(1, blocks, threads, dynamic_bytes, nullptr);
  int resident = 0;
  cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveClusters(&resident, kernel, &one.config);
  }
  if (error == cudaSuccess) return resident;
  static_cast<void>(cudaGetLastError());
  return 0;
}

/// Limits of a device for launches of a kernel.
struct KernelLimits {
  std::int32_t dynamic_bytes = 0;  ///< maximum size of dynamic shared memory per block, in bytes
  std::int8_t blocks = 0;          ///< maximum number of blocks per row, or 0 if not known yet
  bool can_start_early = false;    ///< whether the kernel was compiled for compute capability 9.0
                                   ///< or newer, and therefore waits for the previous kernel
  std::uint8_t fours = 0;   ///< number of clusters of 4 blocks that run at once, 255 or more as 255
  std::uint8_t eights = 0;  ///< number of clusters of 8 blocks that run at once

  /// Returns whether all blocks of `rows` rows run at once. Clusters of 2 blocks leave no SM out,
  /// and calls that use clusters of 16 have few rows.
  bool runs_at_once(std::int64_t rows, int blocks_of_row) const {
    if (blocks_of_row == 4) return rows <= fours;
    return blocks_of_row != 8 || rows <= eights;
  }
};
static_assert(sizeof(KernelLimits) == sizeof(std::uint64_t));  // so that the atomic has no lock

/// Allows a kernel to use all shared memory that the current device has for a block, and finds the
/// limits of the kernel under this setting. The limits are kept for each kernel and device until
/// the process ends, because finding them takes longer than a launch.
template <auto* kKernel>
cudaError_t find_limits(KernelLimits& limits) {
  constexpr int kKnown = 64;
  static std::array<std::atomic<KernelLimits>, kKnown> known{};
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  std::atomic<KernelLimits>* slot =
      device < kKnown ? &known[static_cast<std::size_t>(device)] : nullptr;
  if (slot != nullptr) limits = slot->load(std::memory_order_relaxed);
  if (limits.blocks > 0) return cudaSuccess;
  const RelaxedCapture relaxed;
  int dynamic_bytes = 0;
  error = cudaDeviceGetAttribute(&dynamic_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  cudaFuncAttributes attributes{};
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, kKernel);
  if (error != cudaSuccess) return error;
  dynamic_bytes -= static_cast<int>(attributes.sharedSizeBytes);
  error = cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic_bytes);
  if (error != cudaSuccess) return error;
  const int threads = attributes.maxThreadsPerBlock < kMaxThreadsOfBlock
                          ? attributes.maxThreadsPerBlock
                          : kMaxThreadsOfBlock;
  const auto clusters = [&](int blocks) {
    return resident_clusters(kKernel, blocks, threads, dynamic_bytes);
  };
  limits.dynamic_bytes = dynamic_bytes;
  limits.blocks = clusters(kMaxBlocksOfRow) > 0 ? kMaxBlocksOfRow : kMaxBlocks;
  limits.can_start_early = attributes.ptxVersion >= 90;
  limits.fours = static_cast<std::uint8_t>(std::min(clusters(4), UINT8_MAX));
  limits.eights = static_cast<std::uint8_t>(std::min(clusters(8), UINT8_MAX));
  if (slot != nullptr) slot->store(limits, std::memory_order_relaxed);
  return cudaSuccess;
}

/// Returns how rows can be read: by vectors if each row begins at a multiple of 16 bytes, and
/// otherwise value by value.
inline TileAccess access_of(const RowsView& rows) {
  constexpr std::int64_t kVectorBytes = 16;
  const std::int64_t size = value_size(rows.dtype);
  const bool aligned = reinterpret_cast<std::uintptr_t>(rows.data) % kVectorBytes == 0 &&
                       (rows.rows == 1 || rows.row_stride * size % kVectorBytes == 0);
  return aligned && rows.vocab * size % kVectorBytes == 0 ? TileAccess::vectors
                                                          : TileAccess::values;
}

/// Calls launch.operator()<type>(), a template, with the dtype as its argument.
template <class Launch>
cudaError_t launch_for_type(DType type, const Launch& launch) {
  switch (type) {
    case DType::float16:
      return launch.template operator()<DType::float16>();
    case DType::bfloat16:
      return launch.template operator()<DType::bfloat16>();
    case DType::float32:
      break;
  }
  return launch.template operator()<DType::float32>();
}

/// Calls launch.operator()<form>(), a template, with the RowForm of the rows as its argument.
template <class Launch>
cudaError_t launch_for_form(const RowsView& rows, const Launch& launch) {
  return launch_for_type(rows.dtype, [&]<DType kType>() {
    return access_of(rows) == TileAccess::vectors
               ? launch.template operator()<RowForm{kType, TileAccess::vectors}>()
               : launch.template operator()<RowForm{kType, TileAccess::values}>();
  });
}

/// Requirements of a launch in addition to its arguments.
template <class BytesOfThreads>
struct SpreadNeeds {
  BytesOfThreads dynamic_bytes;  ///< size of the shared memory of a block as a function of the
                                 ///< number of threads, as in dynamic_bytes(512)
  bool starts_early = false;     ///< whether the kernel starts while the previous kernel of the
                                 ///< stream still runs
};
template <class BytesOfThreads>
SpreadNeeds(BytesOfThreads, bool) -> SpreadNeeds<BytesOfThreads>;

/// Enqueues kKernel(arguments..., base-2 logarithm of the number of blocks per row) for `rows`
/// rows. If a device has less shared memory than the blocks need, each block gets fewer threads,
/// but at least kMinThreadsOfBlock. If even this does not suffice, the launch fails.
template <auto* kKernel, class BytesOfThreads, class... Arguments>
cudaError_t launch_spread(std::int64_t rows, const TileSpread& spread,
                          const SpreadNeeds<BytesOfThreads>& needs, cudaStream_t stream,
                          const Arguments&... arguments) {
  KernelLimits limits;
  const cudaError_t error = find_limits<kKernel>(limits);
  if (error != cudaSuccess) return error;
  const int blocks = limits.blocks < spread.blocks ? limits.blocks : spread.blocks;
  int threads = spread.threads;
  while (needs.dynamic_bytes(threads) > limits.dynamic_bytes &&
         needs.dynamic_bytes(threads / 2) < needs.dynamic_bytes(threads) &&
         threads / 2 >= kMinThreadsOfBlock) {
    threads /= 2;
  }
  ClusterLaunch launch(rows, blocks, threads, needs.dynamic_bytes(threads), stream);
  if (needs.starts_early && limits.can_start_early) launch.start_early();
  return cudaLaunchKernelEx(&launch.config, kKernel, arguments...,
                            std::countr_zero(static_cast<unsigned>(blocks)));
}

}  // namespace fairdraw::cuda
