// Reductions and prefix sums over the threads of a block, which are built from reductions of warps
// (warp_sums.cuh).
//
// All threads of the block must call every function, and a block must consist of whole warps.
#pragma once

#include <cstdint>

#include "cuda/device/warp_sums.cuh"

namespace fairdraw::cuda {

inline constexpr int kMaxWarps = 32;  ///< maximum number of warps per block

/// Shared memory of reduce_block.
template <class T>
struct BlockScratch {
  T of_warp[kMaxWarps];
};

/// Returns the combination of the values of all threads, on every thread. The caller may use the
/// shared memory again immediately after the call.
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

/// Sum of the values of all preceding threads of the block, with the sum of the values of all
/// threads.
template <class T>
struct BlockPrefix {
  T before, total;
};

/// Returns prefix sums over the threads of the block. The function has one barrier. `slots` has one
/// value per warp, and must not be used again before the next barrier.
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
