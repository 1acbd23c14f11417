// Sums in shared memory to which many threads add.
#pragma once

#include <cstdint>

#include "common/host_device.h"

namespace fairdraw::cuda {

/// Adds to a 64-bit sum in shared memory by two 32-bit additions, for which the hardware has
/// instructions. A 64-bit addition would be a loop, which is slow if many threads add to the same
/// sum. The sum is exact in any order, because each addition computes its own carry.
__device__ __forceinline__ void add_shared(std::uint64_t* sum, std::uint64_t value) {
  auto* words = reinterpret_cast<std::uint32_t*>(sum);
  const auto low = static_cast<std::uint32_t>(value);
  const std::uint32_t before = atomicAdd(words, low);
  const std::uint32_t high = static_cast<std::uint32_t>(value >> 32) + (before + low < low ? 1 : 0);
  if (high != 0) atomicAdd(words + 1, high);
}

/// Adds a value below 2^63 to a 128-bit sum in shared memory. The sum is exact in any order.
__device__ __forceinline__ void add_shared(uint128_t* sum, std::uint64_t value) {
  auto* words = reinterpret_cast<std::uint32_t*>(sum);
  const auto low = static_cast<std::uint32_t>(value);
  const std::uint32_t low_before = atomicAdd(words, low);
  const std::uint32_t high =
      static_cast<std::uint32_t>(value >> 32) + (low_before + low < low ? 1 : 0);
  if (high == 0) return;
  const std::uint32_t high_before = atomicAdd(words + 1, high);
  if (high_before + high < high) {
    auto* carries = reinterpret_cast<unsigned long long*>(words + 2);
    atomicAdd(carries, 1ULL);
  }
}

}  // namespace fairdraw::cuda
