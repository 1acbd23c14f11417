// Functions for kernels that start while the previous kernel of the stream still runs
// (ClusterLaunch::start_early), so that the launch has already been made when that kernel ends.
// Both functions take no time in a kernel that was not started early, and on devices before compute
// capability 9.0, where no kernel can start early.
#pragma once

#include <cuda_runtime_api.h>

namespace fairdraw::cuda {

/// Waits until the previous kernel of the stream has ended and its writes are visible.
__device__ __forceinline__ void await_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel of the stream start after all blocks have called this function.
__device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace fairdraw::cuda
