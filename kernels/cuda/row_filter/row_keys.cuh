// One key of each warp of a row's blocks, sent to all of them, without a barrier of the cluster.
#pragma once

#include <cstdint>

#include "cuda/device/row_cluster.cuh"
#include "cuda/device/warp_sums.cuh"

namespace fairdraw::cuda {

/// The keys of a row's warps, sent by each warp to all of the row's blocks; those of the next row
/// while the last ones are read. Pushed into the neighbours' shared memory with a barrier that
/// counts bytes: a barrier of the whole cluster would order all memory, and wait for it.
/// kWarps: of a block, kMaxOfRow: of a row.
template <int kWarps, int kMaxOfRow>
struct RowKeys {
  alignas(16) std::uint32_t of_warps[2][kMaxOfRow * kWarps];  ///< 0 where there is no warp
  alignas(8) std::uint64_t arrived[2];

  /// By all threads, before the blocks of the row first meet.
  __device__ void clear(const RowCluster& cluster) {
    for (int i = static_cast<int>(threadIdx.x); i < kMaxOfRow * kWarps; i += kWarps * kWarp) {
      of_warps[0][i] = of_warps[1][i] = 0;
    }
    if (cluster.blocks == 1 || threadIdx.x != 0) return;
#if __CUDA_ARCH__ >= 900
    for (std::uint64_t& barrier : arrived) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address_of(&barrier)) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    expect(cluster, 0);
    expect(cluster, 1);
#endif
  }

  __device__ void tell(const RowCluster& cluster, int parity, std::uint32_t key) {
    const auto thread = static_cast<int>(threadIdx.x);
    const int lane = thread % kWarp;
    std::uint32_t* place = &of_warps[parity][cluster.rank * kWarps + thread / kWarp];
    if (lane >= cluster.blocks) return;
    if (cluster.blocks == 1) {
      *place = key;
      return;
    }
#if __CUDA_ARCH__ >= 900
    std::uint32_t to = 0;
    std::uint32_t barrier = 0;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(address_of(place)), "r"(lane));
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(barrier)
        : "r"(address_of(&arrived[parity])), "r"(lane));
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(to),
        "r"(key), "r"(barrier)
        : "memory");
#endif
  }

  /// The row's key, when all are there. `phase`: how often this parity was waited for before.
  __device__ std::uint32_t await(const RowCluster& cluster, int parity,
                                 [[maybe_unused]] std::uint32_t phase) {
    if (cluster.blocks == 1) {
      __syncthreads();
    } else {
#if __CUDA_ARCH__ >= 900
      std::uint32_t done = 0;
      while (done == 0) {
        asm volatile(
            "{\n\t.reg .pred p;\n\t"
            "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n\t"
            "selp.u32 %0, 1, 0, p;\n\t}"
            : "=r"(done)
            : "r"(address_of(&arrived[parity])), "r"(phase & 1U)
            : "memory");
      }
      // No warp sends a key of this parity before this block has sent that of the row between.
      if (threadIdx.x == 0) expect(cluster, parity);
#endif
    }
    const auto* keys = reinterpret_cast<const uint4*>(of_warps[parity]);
    std::uint32_t key = 0;
#pragma unroll
    for (int i = 0; i < kMaxOfRow * kWarps / 4; i += kWarp) {
      const uint4 four = keys[i + static_cast<int>(threadIdx.x) % kWarp];
      key = max(key, max(max(four.x, four.y), max(four.z, four.w)));
    }
    return warp_max(key);
  }

 private:
  __device__ static unsigned address_of(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
  }
  __device__ void expect([[maybe_unused]] const RowCluster& cluster, [[maybe_unused]] int parity) {
#if __CUDA_ARCH__ >= 900
    const auto bytes = static_cast<unsigned>(cluster.blocks * kWarps) * 4U;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     address_of(&arrived[parity])),
                 "r"(bytes)
                 : "memory");
#endif
  }
};

}  // namespace fairdraw::cuda
