// Sums and prefix sums of 128-bit integers over the threads that finish a row.
//
// The sums alternate between two arrays in shared memory, so that each sum needs only one barrier.
// Every warp by itself adds up the partial sums of all warps. The functions are small and not
// inlined, because each is called several times and code must be loaded into the instruction cache
// when it is executed for the first time.
#pragma once

#include <cstdint>

#include "cuda/device/block_sums.cuh"
#include "cuda/device/shared_memory.cuh"

namespace fairdraw::cuda {

/// Number of threads of a block that finish a row after its tiles have been read. Meanwhile the
/// block's other threads wait for the next pass of all blocks.
inline constexpr int kEndThreads = 256;
inline constexpr int kEndWarps = kEndThreads / kWarp;

/// Synchronises the threads that finish a row at a named barrier of their own, because the block's
/// other threads do not take part.
__device__ __forceinline__ void sync_end() {
  asm volatile("barrier.sync 1, %0;" ::"n"(kEndThreads) : "memory");
}

/// Waits like sync_end(), and returns true if `mine` is true on any of the threads that finish the
/// row.
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

/// Returns the sum of `value` over the threads that finish a row; the sum must be below 2^128.
/// `slot` is an array in shared memory with one sum per warp. The function has one barrier.
__device__ __noinline__ inline uint128_t called_sum(uint128_t value, uint128_t* slots) {
  uint128_t* const slot = &in_shared(*slots);
  const uint128_t of_warp = reduce_warp(value, Add{});
  if (lane_of_thread() == 0) slot[warp_of_thread()] = of_warp;
  sync_end();
  const auto pair = [slot](int warp) { return slot[warp] + slot[warp + 1]; };
  static_assert(kEndWarps == 8);
  return (pair(0) + pair(2)) + (pair(4) + pair(6));
}

class BlockMasses {
 public:
  struct Memory {
    uint128_t slot[2][kEndWarps];
  };
  using Prefix = BlockPrefix<uint128_t>;

  __device__ explicit BlockMasses(Memory& memory) : memory_(memory) {}

  __device__ __forceinline__ Prefix prefix(uint128_t mine) {
    uint128_t* slot = next_slots();
    const uint128_t inclusive = warp_inclusive_sum(mine);
    if (lane_of_thread() == kWarp - 1) slot[warp_of_thread()] = inclusive;
    sync_end();
    Prefix result{inclusive - mine, 0};
#pragma unroll
    for (int warp = 0; warp < kEndWarps; ++warp) {
      const uint128_t of_warp = slot[warp];
      result.before += warp < warp_of_thread() ? of_warp : uint128_t{0};
      result.total += of_warp;
    }
    return result;
  }
  __device__ __forceinline__ uint128_t sum(uint128_t mine) {
    return called_sum(mine, next_slots());
  }

 private:
  __device__ __forceinline__ uint128_t* next_slots() {
    turn_ ^= 1;
    return memory_.slot[turn_];
  }

  Memory& memory_;
  int turn_ = 0;
};

}  // namespace fairdraw::cuda
