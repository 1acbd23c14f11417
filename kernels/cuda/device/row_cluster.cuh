// Thread blocks that share a row: their ranks, their barriers, and the access of each block to the
// shared memory of the others. A single block per row works on all devices; several blocks per row
// need a cluster of thread blocks (compute capability 9.0). The number of blocks per row is a
// parameter of the launch, and the same for the whole grid.
#pragma once

#include <cstdint>

#include "cuda/device/device_assert.h"

namespace fairdraw::cuda {

/// Maximum number of blocks per row, which is the size of the largest cluster that every device
/// with clusters can schedule.
inline constexpr int kMaxBlocks = 8;

/// Waits for all threads of the block, at a barrier that different warps may reach at different
/// places in the code.
__device__ __forceinline__ void sync_block() {
  asm volatile("barrier.sync 0, %0;" ::"r"(blockDim.x) : "memory");
}

struct RowCluster {
  int blocks;  ///< number of blocks that share the row
  int rank;  ///< rank of this block, from 0 to blocks - 1; its tokens precede the tokens of blocks
             ///< with higher ranks

  /// Returns the place of this block in its cluster, for a grid of clusters of 2^blocks_log2
  /// blocks.
  __device__ static RowCluster of_grid(int blocks_log2) {
    const int blocks = 1 << blocks_log2;
    return {blocks, static_cast<int>(blockIdx.x) & (blocks - 1)};
  }

  /// Waits for all threads of all blocks that share the row. After this call, a thread can read
  /// what the other threads have written to shared memory before the call, including the shared
  /// memory of other blocks.
  __device__ void sync() const {
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
      __syncwarp();
      asm volatile(
          "barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::
              : "memory");
      return;
    }
#endif
    sync_block();
  }

  /// Arrives at a barrier of the row's blocks, which the function wait() completes. Work between
  /// arrive() and wait() must not depend on the work of other blocks.
  __device__ void arrive() const {
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
      __syncwarp();
      asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    }
#endif
  }
  __device__ void wait() const {
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
      __syncwarp();
      asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
      return;
    }
#endif
    sync_block();
  }

  /// Arrives at a barrier of the row's blocks, without making writes visible. At the first barrier
  /// of a kernel, which the function await_all() completes, other blocks learn that they may write
  /// to the shared memory of this block.
  __device__ void announce() const {
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
      __syncwarp();
      asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    }
#endif
  }
  __device__ void await_all() const {
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
      __syncwarp();
      asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    }
#endif
  }

  /// Makes this thread's earlier writes to shared memory visible to blocks that await this block's
  /// announcement.
  __device__ void release() const {
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) asm volatile("fence.acq_rel.cluster;" ::: "memory");
#endif
  }

  /// Returns the address, in block number `block`, of the shared variable that has the address
  /// `mine` in this block.
  template <class T>
  __device__ T* at(T* mine, int block) const {
    FAIRDRAW_DEVICE_ASSERT(block >= 0 && block < blocks);
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
      T* theirs = nullptr;
      asm("mapa.u64 %0, %1, %2;" : "=l"(theirs) : "l"(mine), "r"(block));
      return theirs;
    }
#endif
    return mine;
  }
};

}  // namespace fairdraw::cuda
