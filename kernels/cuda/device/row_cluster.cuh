// The thread blocks that share a row: who they are, how they wait, where their neighbours' shared
// memory lies. One block a row works everywhere; more need a thread-block cluster (compute
// capability 9.0). The number of blocks is a launch parameter, the same in the whole grid.
#pragma once

#include <cstdint>

namespace fairdraw::cuda {

/// Most blocks a row: the largest cluster that every device with clusters can schedule.
inline constexpr int kMaxBlocks = 8;

/// A barrier of a block's threads, which warps may come to at different places of the code.
__device__ __forceinline__ void sync_block() {
  asm volatile("barrier.sync 0, %0;" ::"r"(blockDim.x) : "memory");
}

struct RowCluster {
  int blocks;  ///< that share the row
  int rank;    ///< of this block, 0 to blocks - 1: its tokens come before those of higher ranks

  /// This block's, in a grid of clusters of 2^blocks_log2 blocks.
  __device__ static RowCluster of_grid(int blocks_log2) {
    const int blocks = 1 << blocks_log2;
    return {blocks, static_cast<int>(blockIdx.x) & (blocks - 1)};
  }

  /// Waits for all threads of the row's blocks; what they wrote to shared memory before, their
  /// neighbours' too, can be read after.
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

  /// The two halves of a sync, with work between them that needs nothing of the others.
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

  /// First half of the first sync of a kernel: neighbours may write to this block's shared memory
  /// once all have arrived.
  __device__ void announce() const {
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
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

  /// Where a variable of this block's shared memory lies in block `block`.
  template <class T>
  __device__ T* at(T* mine, int block) const {
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
