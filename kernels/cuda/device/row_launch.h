// Launches of kernels in which each block, or each cluster of blocks, works on one item.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace fairdraw::cuda {

/// Launch of count * blocks thread blocks; if `blocks` is above 1, the blocks form clusters of this
/// size (compute capability 9.0).
struct ClusterLaunch {
  ClusterLaunch(std::int64_t count, int blocks, int threads, int dynamic_bytes,
                cudaStream_t stream) {
    config.gridDim = dim3(static_cast<unsigned>(count * blocks));
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = static_cast<std::size_t>(dynamic_bytes);
    config.stream = stream;
    config.attrs = attributes;
    if (blocks == 1) return;
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(blocks);
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
  }
  ClusterLaunch(const ClusterLaunch&) = delete;  // not copyable, because `config` has a pointer to
                                                 // `attributes`
  ClusterLaunch& operator=(const ClusterLaunch&) = delete;

  /// Lets the kernel start while the previous kernel of the stream still runs; the kernel itself
  /// then waits for the previous kernel (compute capability 9.0). The function must be called at
  /// most once per launch.
  void start_early() {
    cudaLaunchAttribute& early = attributes[config.numAttrs++];
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
  }

  cudaLaunchConfig_t config{};
  cudaLaunchAttribute attributes[2]{};
};

/// Enqueues kernel(arguments...) with count * blocks blocks, which have no dynamic shared memory.
/// Returns the CUDA error of the launch.
template <class Kernel, class... Arguments>
cudaError_t launch_clusters(Kernel* kernel, std::int64_t count, int blocks, int threads,
                            cudaStream_t stream, const Arguments&... arguments) {
  const ClusterLaunch launch(count, blocks, threads, 0, stream);
  return cudaLaunchKernelEx(&launch.config, kernel, arguments...);
}

/// Enqueues kernel(arguments...) with one block for each of `count` items; `count` must be at least
/// 1. If there are more than 2^20 items, each block processes several items.
template <class Kernel, class... Arguments>
cudaError_t launch_blocks(Kernel* kernel, std::int64_t count, int threads, cudaStream_t stream,
                          const Arguments&... arguments) {
  constexpr std::int64_t kMax = std::int64_t{1} << 20;
  return launch_clusters(kernel, count < kMax ? count : kMax, 1, threads, stream, arguments...);
}

}  // namespace fairdraw::cuda
