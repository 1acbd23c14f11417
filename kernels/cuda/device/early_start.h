// Kernels that start while the stream's kernel before them still runs (ClusterLaunch::start_early),
// so that their launch is over when that one ends. Both functions take no time in a kernel that did
// not start early, and on devices before compute capability 9.0, where no kernel does.
#pragma once

#include <cuda_runtime_api.h>

namespace fairdraw::cuda {

/// Waits for the kernel before this one, and for its writes.
__device__ __forceinline__ void await_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the stream's next kernel start after all blocks have called this.
__device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace fairdraw::cuda
