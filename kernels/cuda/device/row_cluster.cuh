// Thread blocks that share a row: their ranks, their barriers, and access to each other's shared
// memory. One block per row works on all devices; several blocks need a thread-block cluster
// (compute capability 9.0). The number of blocks per row is a launch parameter, the same for the
// whole grid.
#pragma once

#include <cstdint>

namespace fairdraw::cuda {

/// Maximum number of blocks per row: the largest cluster that every device with clusters can
/// schedule.
inline constexpr int kMaxBlocks = 8;

/// Waits for the block's threads, at a barrier that warps may reach at different places in the
/// code.
__device__ __forceinline__ void sync_block() {
  asm volatile("barrier.sync 0, %0;" ::"r"(blockDim.x) : "memory");
}

struct RowCluster {
  int blocks;  ///< number of blocks that share the row
  int rank;  ///< rank of this block, 0 to blocks - 1; its tokens precede the tokens of blocks with
             ///< higher ranks

  /// Returns this block's place in its cluster, for a grid of clusters of 2^blocks_log2 blocks.
  __device__ static RowCluster of_grid(int blocks_log2) {
    const int blocks = 1 << blocks_log2;
    return {blocks, static_cast<int>(blockIdx.x) & (blocks - 1)};
  }

  /// Waits for all threads of all blocks that share the row. Their earlier writes to shared memory,
  /// including another block's, can be read afterwards.
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

  /// Arrives at a barrier of the row's blocks, which wait() completes. Work between arrive() and
  /// wait() must not depend on other blocks.
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

  /// Arrives at the first barrier of a kernel, which await_all() completes. Other blocks may write
  /// to this block's shared memory after all blocks have arrived.
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

  /// Returns the address in block `block` of the shared variable that is `mine` in this block.
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
