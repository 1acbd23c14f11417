// Sums in shared memory to which many threads add.
#pragma once

#include <cstdint>

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

}  // namespace fairdraw::cuda
