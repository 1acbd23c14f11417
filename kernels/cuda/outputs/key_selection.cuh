// Finds the k-th largest of integer keys with the threads of a block, in levels; each level divides
// the remaining range of keys into bins.
//
// Each level counts the keys of each bin in shared memory. Then every warp by itself finds the bin
// in which the number of keys, counted from the largest down, reaches k. So a level has only one
// barrier. The width of the bins is a power of two, so each level divides the range by at least
// 128. At most five levels end any search, and one or two levels suffice if `slack` allows a few
// keys too many. Counts are integers, so the result does not depend on the order of threads.
#pragma once

#include <cstdint>

#include "cuda/device/block_masses.cuh"
#include "cuda/tiles/row_cut.cuh"

namespace fairdraw::cuda {

/// Bins of equal width that divide an interval of keys.
struct KeyBins {
  static constexpr int kBinBits = 8;

  KeyInterval keys;

  /// Returns the number of low bits in which the distances from keys.low of two keys in the same
  /// bin may differ.
  __device__ int shift() const {
    const int bits = 32 - __clz(static_cast<int>(distance(keys.high)));
    return bits > kBinBits ? bits - kBinBits : 0;
  }
  __device__ int bin_of(std::int32_t key) const {
    return static_cast<int>(distance(key) >> shift());
  }
  __device__ KeyInterval of_bin(int bin) const {
    const std::uint32_t first = static_cast<std::uint32_t>(bin) << shift();
    const std::uint32_t last = min(first + ((1U << shift()) - 1U), distance(keys.high));
    return {at(first), at(last)};
  }

 private:
  // Returns a key's distance from keys.low, which is unsigned because the interval may be wider
  // than 2^31.
  __device__ std::uint32_t distance(std::int32_t key) const {
    return static_cast<std::uint32_t>(key) - static_cast<std::uint32_t>(keys.low);
  }
  __device__ std::int32_t at(std::uint32_t distance) const {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(keys.low) + distance);
  }
};

/// Cut of a selection, which keeps about the k largest keys.
struct KeyCut {
  std::int32_t key;  ///< smallest kept key; at least k keys are not smaller
  int above;         ///< number of keys above the last interval that was divided into bins, always
                     ///< below k
  int reached;       ///< number of keys that are at least `key`; below k only if there are fewer
                     ///< keys in total
};

/// Counts of keys by bin, in shared memory. Three arrays of bins alternate: one counts the current
/// level, one may still be read by slow warps after the previous level, and one is cleared for the
/// next level.
class KeySelection {
 public:
  static constexpr int kBins = 1 << KeyBins::kBinBits;
  struct Memory {
    alignas(16) std::int32_t bins[3][kBins];
  };

  __device__ explicit KeySelection(Memory& memory) : memory_(memory) {}

  /// Clears the first array of bins. All threads must call this function, and a barrier must follow
  /// before the first selection.
  __device__ void clear() {
    for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kEndThreads) {
      memory_.bins[0][i] = 0;
    }
  }

  /// Returns a cut such that at least k of the keys in `range` are at least as large as the cut's
  /// key, and at most k + slack unless keys are tied. The function for_each(visit) must call
  /// visit(key, amount) for this thread's keys, where an amount above 1 counts the key more than
  /// once. Keys outside of the range are not counted.
  template <class ForEach>
  __device__ KeyCut select(KeyInterval range, int k, int slack, const ForEach& for_each) {
    int above = 0;
#pragma unroll 1
    while (true) {
      std::int32_t* bins = memory_.bins[turn_];
      turn_ = turn_ == 2 ? 0 : turn_ + 1;
      for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kEndThreads) {
        memory_.bins[turn_][i] = 0;
      }
      const KeyBins divided{range};
      for_each([&](std::int32_t key, int amount) {
        if (range.holds(key)) atomicAdd(&bins[divided.bin_of(key)], amount);
      });
      sync_end();
      const BinCut cut = find_bin(bins, k - above);
      if (cut.bin < 0) return {range.low, above, above + cut.above};
      range = divided.of_bin(cut.bin);
      const int reached = above + cut.above + cut.count;
      above += cut.above;
      if (range.single() || reached - k <= slack) return {range.low, above, reached};
    }
  }

 private:
  struct BinCut {
    int bin;  ///< bin in which the count reaches k; -1 if all bins together have fewer than k keys
    int above, count;  ///< number of keys in the bins of larger keys, and number of keys in this
                       ///< bin
  };

  /// Returns the bin in which the count, summed from the last bin down, reaches k. A whole warp
  /// must call this function.
  __device__ static BinCut find_bin(const std::int32_t* bins, int k) {
    constexpr int kOfLane = kBins / kWarp;
    const int first = kBins - kOfLane * (lane_of_thread() + 1);
    int count[kOfLane];
    int sum = 0;
#pragma unroll
    for (int i = 0; i < kOfLane; i += 4) {
      const int4 four = *reinterpret_cast<const int4*>(bins + first + i);
      count[i] = four.x;
      count[i + 1] = four.y;
      count[i + 2] = four.z;
      count[i + 3] = four.w;
    }
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) sum += count[i];
    const int inclusive = warp_inclusive_sum(sum);
    const unsigned reached = __ballot_sync(kAllLanes, inclusive >= k);
    if (reached == 0) return {-1, __shfl_sync(kAllLanes, inclusive, kWarp - 1), 0};
    BinCut cut{-1, inclusive - sum, 0};
#pragma unroll
    for (int i = kOfLane - 1; i >= 0; --i) {
      if (cut.bin >= 0) continue;
      if (cut.above + count[i] >= k) {
        cut.bin = first + i;
        cut.count = count[i];
      } else {
        cut.above += count[i];
      }
    }
    const int lane = __ffs(static_cast<int>(reached)) - 1;
    return {__shfl_sync(kAllLanes, cut.bin, lane), __shfl_sync(kAllLanes, cut.above, lane),
            __shfl_sync(kAllLanes, cut.count, lane)};
  }

  Memory& memory_;
  int turn_ = 0;
};

}  // namespace fairdraw::cuda
