// Reductions and prefix sums over the threads of a block, built from warp reductions
// (warp_sums.cuh).
//
// All threads of the block must call every function; blocks consist of whole warps.
#pragma once

#include <cstdint>

#include "cuda/device/warp_sums.cuh"

namespace fairdraw::cuda {

inline constexpr int kMaxWarps = 32;  ///< maximum number of warps per block

/// Scratch of reduce_block, in shared memory.
template <class T>
struct BlockScratch {
  T of_warp[kMaxWarps];
};

/// Returns the combination of all threads' values, on every thread. The scratch can be reused
/// immediately after the call.
template <class T, class Combine>
__device__ T reduce_block(T value, BlockScratch<T>& scratch, const Combine& combine) {
  value = reduce_warp(value, combine);
  if (lane_of_thread() == 0) scratch.of_warp[warp_of_thread()] = value;
  __syncthreads();
  T result = scratch.of_warp[0];
  for (int warp = 1; warp < warps_of_block(); ++warp) {
    result = combine(result, scratch.of_warp[warp]);
  }
  __syncthreads();
  return result;
}

/// Sum of the values of all preceding threads of the block, and sum of the values of all threads.
template <class T>
struct BlockPrefix {
  T before, total;
};

/// Returns prefix sums over the block's threads. One barrier. `slots` has one value per warp, and
/// must not be reused before the next barrier.
template <class T>
__device__ __forceinline__ BlockPrefix<T> block_prefix(T mine, T* slots) {
  const T upto = warp_inclusive_sum(mine);
  if (lane_of_thread() == kWarp - 1) slots[warp_of_thread()] = upto;
  __syncthreads();
  const T of_warp = lane_of_thread() < warps_of_block() ? slots[lane_of_thread()] : T{};
  const T upto_warp = warp_inclusive_sum(of_warp);
  const T before = value_of_lane(upto_warp - of_warp, warp_of_thread());
  return {before + upto - mine, value_of_lane(upto_warp, kWarp - 1)};
}

}  // namespace fairdraw::cuda
