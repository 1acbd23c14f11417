// Counts and weights by range of values: one level of an exact selection.
//
// Values are compared as order-preserving keys. A level cuts the range of keys that is still open
// into kBins equal parts, from the largest key down, and sums count and weight of each. So four
// levels find any cut among 2^32 keys, whatever the values.
//
// Sums are exact and their order does not matter.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "cuda/device/warp_sums.cuh"

namespace fairdraw::cuda {

inline constexpr int kBins = 512;
inline constexpr int kBinBits = 9;

/// Keys as unsigned numbers: a < b as floats if and only if key(a) < key(b); NaN above all.
__device__ inline std::uint32_t unsigned_key(float value) {
  if (value != value) return 0xffffffffU;
  return static_cast<std::uint32_t>(order_key(value)) ^ 0x80000000U;
}
__device__ inline float from_unsigned_key(std::uint32_t key) {
  return from_order_key(static_cast<std::int32_t>(key ^ 0x80000000U));
}

/// The keys that a level looks at, both ends included.
struct KeyRange {
  std::uint32_t low, high;

  __device__ bool holds(std::uint32_t key) const { return key >= low && key <= high; }
  /// Keys of a bin differ below this bit alone.
  __device__ int shift() const {
    const int bits = 32 - __clz(static_cast<int>(high - low));
    return bits > kBinBits ? bits - kBinBits : 0;
  }
  __device__ int bin_of(std::uint32_t key) const {
    return static_cast<int>((high - key) >> shift());
  }
  /// The keys of one bin.
  __device__ KeyRange of_bin(int bin) const {
    const std::uint32_t top = high - (static_cast<std::uint32_t>(bin) << shift());
    const std::uint32_t width = (1U << shift()) - 1;
    return {top - low > width ? top - width : low, top};
  }
  __device__ bool single() const { return low == high; }
};

/// Sums by bin, in shared memory, which adds 32 bits at a time.
struct WeightBins {
  std::uint32_t word[3][kBins];

  template <int kThreads>
  __device__ void clear() {
    for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kThreads) {
      word[0][bin] = word[1][bin] = word[2][bin] = 0;
    }
  }

  /// Adds the weight of one value. Three parts, 14, 14 and 13 bits: 2^18 values do not overflow
  /// them, and nothing waits for an old value.
  __device__ void add_weight(int bin, std::uint64_t weight) {
    atomicAdd(&word[0][bin], static_cast<std::uint32_t>(weight) & 0x3fffU);
    atomicAdd(&word[1][bin], static_cast<std::uint32_t>(weight >> 14) & 0x3fffU);
    atomicAdd(&word[2][bin], static_cast<std::uint32_t>(weight >> 28));
  }
  __device__ std::uint64_t weight(int bin) const {
    return word[0][bin] + (static_cast<std::uint64_t>(word[1][bin]) << 14) +
           (static_cast<std::uint64_t>(word[2][bin]) << 28);
  }

  /// Adds a sum of any size: the low word's carries, which the old value shows, go to the high one.
  __device__ void add_sum(int bin, std::uint64_t sum) {
    const auto low = static_cast<std::uint32_t>(sum);
    const std::uint32_t before = atomicAdd(&word[0][bin], low);
    const auto high = static_cast<std::uint32_t>(sum >> 32) + (before + low < before ? 1U : 0U);
    if (high != 0) atomicAdd(&word[1][bin], high);
  }
  __device__ std::uint64_t sum(int bin) const {
    return word[0][bin] | (static_cast<std::uint64_t>(word[1][bin]) << 32);
  }
};

/// The bin in which a measure from the top, with `above` before it, reaches `target`:
/// memory.cut_bin, or -1 where it does not. Thread t has bin t's measure; all threads take part.
/// Returns the measure above that bin (of everything where there is none).
template <int kThreads, class Memory>
__device__ inline std::uint64_t find_cut_bin(Memory& memory, std::uint64_t mine,
                                             std::uint64_t above, std::uint64_t target) {
  if (threadIdx.x == 0) memory.cut_bin = -1;
  std::uint64_t total = 0;
  const std::uint64_t inclusive =
      above + block_inclusive_sum<kThreads>(mine, total, memory.scan_slots);
  if (inclusive - mine < target && inclusive >= target) {
    memory.cut_bin = static_cast<std::int32_t>(threadIdx.x);
    memory.cut_above = inclusive - mine;
  }
  __syncthreads();
  return memory.cut_bin >= 0 ? memory.cut_above : above + total;
}

}  // namespace fairdraw::cuda
