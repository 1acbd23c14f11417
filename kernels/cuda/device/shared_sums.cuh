// Sums in shared memory to which many threads add.
#pragma once

#include <cstdint>

#include "common/host_device.h"
#include "cuda/device/warp_sums.cuh"

namespace fairdraw::cuda {

/// Adds to a 128-bit sum in shared memory by additions of 32 bits, for which the hardware has
/// instructions. A 64-bit addition would be a loop, which is slow if many threads add to the same
/// sum. The sum is exact in any order, because each addition computes its own carry.
__device__ __forceinline__ void add_shared(uint128_t* sum, uint128_t value) {
  auto* words = reinterpret_cast<std::uint32_t*>(sum);
  std::uint32_t carry = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t part = std::uint64_t{static_cast<std::uint32_t>(value >> (32 * i))} + carry;
    const auto word = static_cast<std::uint32_t>(part);
    carry = static_cast<std::uint32_t>(part >> 32);
    if (word != 0 && atomicAdd(words + i, word) + word < word) carry = 1;
  }
}

/// Adds the value of each lane of a warp to one of `count` sums in shared memory, or to none if
/// `place` is `count`. Usually most lanes have the same place, and many additions to one sum would
/// have to wait for each other. So the lanes with the place of the first lane are added up first.
/// All lanes of the warp must call this function.
template <class T>
__device__ __forceinline__ void add_of_warp(uint128_t* sums, int count, int place, T value) {
  const unsigned adding = __ballot_sync(kAllLanes, place < count);
  if (adding == 0) return;
  const int first = value_of_lane(place, __ffs(static_cast<int>(adding)) - 1);
  const bool is_first = place == first;
  const uint128_t together = wide_sum_of_warp(is_first ? value : T{0});
  if (lane_of_thread() == 0) add_shared(sums + first, together);
  if (place < count && !is_first) add_shared(sums + place, uint128_t{value});
}

}  // namespace fairdraw::cuda
