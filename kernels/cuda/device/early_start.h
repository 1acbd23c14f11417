// A kernel that starts while the stream's kernel before it still runs (ClusterLaunch::start_early):
// its launch is over when that one ends. Both functions take no time where it did not start early,
// and on devices before compute capability 9.0, where no kernel does.
#pragma once

#include <cuda_runtime_api.h>

namespace fairdraw::cuda {

/// Waits for the kernel before this one, and for what it wrote.
__device__ __forceinline__ void await_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// From here on the stream's next kernel may start, when all blocks have come here.
__device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace fairdraw::cuda
