// Size of a warp, with reductions and prefix sums over the lanes of a warp. All lanes of the warp
// must call these functions together.
//
// The functions support types of 4 and 8 bytes, 128-bit integers, and structs that have a
// `value_of_lane` of their own. Integer sums, minima and maxima are exact and commutative, so that
// the result does not depend on the order of a reduction.
#pragma once

#include <cstdint>
#include <type_traits>

#include "common/host_device.h"

namespace fairdraw::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

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

/// Returns the value of the lane whose number is lower by `distance`; the first `distance` lanes
/// get their own value.
template <class T>
__device__ T value_of_lane_below(T value, int distance) {
  if constexpr (std::is_arithmetic_v<T>) {
    return __shfl_up_sync(kAllLanes, value, distance);
  } else {
    const int lane = lane_of_thread();
    return value_of_lane(value, lane < distance ? lane : lane - distance);
  }
}
__device__ inline uint128_t value_of_lane_below(uint128_t value, int distance) {
  const auto low = __shfl_up_sync(kAllLanes, static_cast<std::uint64_t>(value), distance);
  const auto high = __shfl_up_sync(kAllLanes, static_cast<std::uint64_t>(value >> 64), distance);
  return (static_cast<uint128_t>(high) << 64) | low;
}

struct Add {
  template <class T>
  __device__ T operator()(const T& a, const T& b) const {
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

/// Returns the combination of the values of all lanes, on every lane.
template <class T, class Combine>
__device__ T reduce_warp(T value, const Combine& combine) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = combine(value, value_of_lane(value, lane_of_thread() ^ distance));
  }
  return value;
}

/// Returns the sum, modulo 2^128, of integers of 64 or 128 bits. The values are added in parts
/// whose sums over 32 lanes fit into a word, so that only the last additions wait for a carry.
template <class T>
__device__ __forceinline__ uint128_t wide_sum_of_warp(T value) {
  constexpr int kPartBits = 27;
  uint128_t sum = 0;
#pragma unroll
  for (int shift = 0; shift < static_cast<int>(8 * sizeof(T)); shift += kPartBits) {
    const auto part = static_cast<std::uint32_t>(value >> shift) & ((1U << kPartBits) - 1);
    sum += static_cast<uint128_t>(__reduce_add_sync(kAllLanes, part)) << shift;
  }
  return sum;
}
__device__ __forceinline__ uint128_t reduce_warp(uint128_t value, Add) {
  return wide_sum_of_warp(value);
}

/// Returns the sum of the values of this lane and of all lanes before it.
template <class T>
__device__ T warp_inclusive_sum(T value) {
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const T before = value_of_lane_below(value, distance);
    if (lane_of_thread() >= distance) value += before;
  }
  return value;
}

/// Returns the inclusive prefix sum of 128-bit integers over the lanes. The function is out of
/// line, because the code for a row calls it several times, and code runs slowly until it is in the
/// instruction cache. Lanes that have no lower lane at a distance add 0, so that the code has no
/// branch.
__device__ __noinline__ inline uint128_t warp_inclusive_sum(uint128_t value) {
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const uint128_t before = value_of_lane_below(value, distance);
    value += lane_of_thread() >= distance ? before : uint128_t{0};
  }
  return value;
}

}  // namespace fairdraw::cuda
