// A warp, and sums, prefix sums and extremes over its lanes. All lanes take part.
#pragma once

#include <cstdint>

namespace fairdraw::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

/// The sum over all lanes, in every lane.
template <class T>
__device__ inline T warp_sum(T value) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

/// The sum over the lanes up to this one.
template <class T>
__device__ inline T warp_inclusive_sum(T value) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const T before = __shfl_up_sync(kAllLanes, value, distance);
    if (lane >= distance) value += before;
  }
  return value;
}

__device__ inline std::uint32_t warp_max(std::uint32_t value) {
  return __reduce_max_sync(kAllLanes, value);
}
__device__ inline std::uint32_t warp_min(std::uint32_t value) {
  return __reduce_min_sync(kAllLanes, value);
}

/// Prefix sums over the block's threads. `slots` holds one value a warp; it must not be read or
/// written by others between the call's barrier and the next one.
template <int kThreads, class T>
__device__ inline T block_inclusive_sum(T value, T& total, T* slots) {
  constexpr int kWarps = kThreads / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const T inclusive = warp_inclusive_sum(value);
  if (lane == kWarp - 1) slots[warp] = inclusive;
  __syncthreads();
  const T of_warps = warp_inclusive_sum(lane < kWarps ? slots[lane] : T{0});
  total = __shfl_sync(kAllLanes, of_warps, kWarp - 1);
  const T before = __shfl_sync(kAllLanes, of_warps, warp > 0 ? warp - 1 : 0);
  return warp > 0 ? inclusive + before : inclusive;
}

}  // namespace fairdraw::cuda
