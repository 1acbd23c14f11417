// Reductions and prefix sums over the threads of a warp and of a block.
//
// For types of 4 and 8 bytes, and for 128-bit integers, whose halves travel one by one (a sum of
// residuals has up to 120 bits; the addition carries). All combinations used are exact and
// commutative (integer sums, minima, maxima), so the order of a reduction never shows.
//
// Every function must be reached by all threads of the warp or block; blocks are whole warps.
#pragma once

#include <cstdint>

#include "common/host_device.h"
#include "cuda/device/warp_sums.cuh"

namespace fairdraw::cuda {

inline constexpr int kMaxWarps = 32;  ///< of a block

__device__ inline int lane_of_thread() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ inline int warp_of_thread() { return static_cast<int>(threadIdx.x) / kWarp; }
__device__ inline int warps_of_block() { return static_cast<int>(blockDim.x) / kWarp; }

template <class T>
__device__ T value_of_lane(T value, int lane) {
  return __shfl_sync(kAllLanes, value, lane);
}
__device__ inline uint128_t value_of_lane(uint128_t value, int lane) {
  const std::uint64_t low = value_of_lane(static_cast<std::uint64_t>(value), lane);
  const std::uint64_t high = value_of_lane(static_cast<std::uint64_t>(value >> 64), lane);
  return (static_cast<uint128_t>(high) << 64) | low;
}

/// The sum over all lanes, in every lane, below 2^128: by parts of which 32 fit into a word, so
/// that nothing waits for a carry but the last additions.
__device__ __forceinline__ uint128_t sum_of_lanes(uint128_t value) {
  constexpr int kPartBits = 27;
  uint128_t sum = 0;
#pragma unroll
  for (int shift = 0; shift < 128; shift += kPartBits) {
    const auto part = static_cast<std::uint32_t>(value >> shift) & ((1U << kPartBits) - 1);
    sum += static_cast<uint128_t>(__reduce_add_sync(kAllLanes, part)) << shift;
  }
  return sum;
}

struct Add {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Minimum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Maximum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

/// The combination of all lanes' values, on every lane.
template <class T, class Combine>
__device__ T reduce_warp(T value, const Combine& combine) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = combine(value, value_of_lane(value, lane_of_thread() ^ distance));
  }
  return value;
}

/// The sum of the values of this lane and of all lanes before it.
template <class T>
__device__ T inclusive_sum_of_warp(T value) {
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const int source = lane_of_thread() - distance;
    const T before = value_of_lane(value, source < 0 ? 0 : source);
    if (source >= 0) value += before;
  }
  return value;
}

/// Shared memory of reduce_block.
template <class T>
struct BlockScratch {
  T of_warp[kMaxWarps];
};

/// The combination of all threads' values, on every thread. The scratch can be used again at once.
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

}  // namespace fairdraw::cuda
