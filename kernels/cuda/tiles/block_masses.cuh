// Sums and prefix sums of 128 bits over the threads of a row's end.
//
// Two sets of slots take turns, so that each sum has one barrier. Every warp adds the warps' sums
// for itself. The code is small, and called rather than inlined: it is used several times, and
// instructions come slowly the first time.
#pragma once

#include <cstdint>

#include "cuda/device/block_sums.cuh"

namespace fairdraw::cuda {

/// Threads of a block that end a row; the others wait for passes to take part in.
inline constexpr int kEndThreads = 256;
inline constexpr int kEndWarps = kEndThreads / kWarp;

/// A barrier of the threads that end a row, and not of the block: a barrier of its own.
__device__ __forceinline__ void sync_end() {
  asm volatile("barrier.sync 1, %0;" ::"n"(kEndThreads) : "memory");
}

/// The same, and whether `mine` is true on any of the threads.
__device__ __forceinline__ bool sync_end_or(bool mine) {
  int any = 0;
  asm volatile(
      "{\n\t.reg .pred p, q;\n\tsetp.ne.s32 p, %1, 0;\n\t"
      "barrier.red.or.pred q, 1, %2, p;\n\tselp.s32 %0, 1, 0, q;\n\t}"
      : "=r"(any)
      : "r"(mine ? 1 : 0), "n"(kEndThreads)
      : "memory");
  return any != 0;
}

/// The sum of the lanes up to this one. All arguments in registers.
__device__ __noinline__ inline uint128_t called_inclusive_sum(uint128_t value) {
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const auto low = __shfl_up_sync(kAllLanes, static_cast<std::uint64_t>(value), distance);
    const auto high = __shfl_up_sync(kAllLanes, static_cast<std::uint64_t>(value >> 64), distance);
    const uint128_t before = (static_cast<uint128_t>(high) << 64) | low;
    value += lane_of_thread() >= distance ? before : uint128_t{0};
  }
  return value;
}

/// The sum over all lanes, below 2^128, on every lane: by parts of which 32 fit into a word, so that
/// nothing waits for a carry but the last additions.
__device__ __noinline__ inline uint128_t called_sum(uint128_t value) {
  constexpr int kPartBits = 27;
  uint128_t sum = 0;
#pragma unroll
  for (int shift = 0; shift < 128; shift += kPartBits) {
    const auto part = static_cast<std::uint32_t>(value >> shift) & ((1U << kPartBits) - 1);
    sum += static_cast<uint128_t>(__reduce_add_sync(kAllLanes, part)) << shift;
  }
  return sum;
}

class BlockMasses {
 public:
  struct Memory {
    uint128_t slot[2][kEndWarps];
  };
  struct Prefix {
    uint128_t before;  ///< sum of all threads before this one
    uint128_t total;
  };

  __device__ explicit BlockMasses(Memory& memory) : memory_(memory) {}

  __device__ __forceinline__ Prefix prefix(uint128_t mine) {
    const uint128_t inclusive = called_inclusive_sum(mine);
    const uint128_t* slot = exchange(inclusive, kWarp - 1);
    uint128_t before[kEndWarps];
    uint128_t of_warp[kEndWarps];
#pragma unroll
    for (int warp = 0; warp < kEndWarps; ++warp) {
      of_warp[warp] = slot[warp];
      before[warp] = warp < warp_of_thread() ? of_warp[warp] : uint128_t{0};
    }
    return {inclusive - mine + tree_sum(before), tree_sum(of_warp)};
  }

  __device__ __forceinline__ uint128_t sum(uint128_t mine) {
    const uint128_t* slot = exchange(called_sum(mine), 0);
    uint128_t of_warp[kEndWarps];
#pragma unroll
    for (int warp = 0; warp < kEndWarps; ++warp) of_warp[warp] = slot[warp];
    return tree_sum(of_warp);
  }

 private:
  /// All warps' sums, of which a lane has its warp's. One barrier.
  __device__ __forceinline__ const uint128_t* exchange(uint128_t of_warp, int lane) {
    turn_ ^= 1;
    uint128_t* slot = memory_.slot[turn_];
    if (lane_of_thread() == lane) slot[warp_of_thread()] = of_warp;
    sync_end();
    return slot;
  }

  /// An addition of 128 bits is four that wait for one another: three after one another, not eight.
  __device__ __forceinline__ static uint128_t tree_sum(const uint128_t (&of_warp)[kEndWarps]) {
    static_assert(kEndWarps == 8);
    return ((of_warp[0] + of_warp[1]) + (of_warp[2] + of_warp[3])) +
           ((of_warp[4] + of_warp[5]) + (of_warp[6] + of_warp[7]));
  }

  Memory& memory_;
  int turn_ = 0;
};

}  // namespace fairdraw::cuda
