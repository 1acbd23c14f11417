// What the blocks of a row keep in shared memory, and what they tell each other.
#pragma once

#include <cstdint>

#include "cuda/device/row_cluster.cuh"
#include "cuda/row_filter/row_segment.cuh"
#include "cuda/row_filter/weight_bins.cuh"

namespace fairdraw::cuda {

/// What one block tells the others of its part of the row, first.
struct PartMaximum {
  std::uint32_t max_key;   ///< of its largest allowed value, or its fault (filter_rows.cuh)
  std::uint32_t tail_key;  ///< key of the head's end
  std::int32_t first;      ///< greedy rows: where the maximum is first
  std::int32_t top;        ///< nuclei: the bin of the maximum, on a scale that all blocks share
  std::int32_t unused[4];
};

/// Weights of a part of the row, and a number of values.
struct PartSums {
  std::uint64_t total, above, inside;
  std::int64_t count;
};

/// What the first block decides of a nucleus.
struct Verdict {
  std::uint64_t total, remaining;
  float low;
  std::int32_t block;
};

/// Ranked candidates. value is padded to a multiple of four with -inf.
struct Ranked {
  float value[kMaxRanked];
  std::uint64_t weight[kMaxRanked];
  std::int32_t id[kMaxRanked];
  std::int32_t sorted[kMaxRanked];  ///< entries, from the largest value down
};

/// A block's static shared memory.
template <int kThreads>
struct BlockMemory {
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr int kMaximaOfThread = maxima_of_thread(kThreads);

  std::uint64_t loaded[kWarps];  ///< barriers of bulk copies
  std::uint64_t warp_sum[3][kWarp];
  std::uint64_t scan_slots[kWarp];
  float float_slots[2][kWarp];
  std::uint32_t warp_key[2][kWarp];
  std::int32_t warp_count[2][kWarp];
  // Written by the row's other blocks.
  PartMaximum maximum[kMaxBlocks];
  PartSums sums[2][kMaxBlocks];  ///< one in use while the other is written
  Verdict verdict;
  std::int32_t tie_position;
  // Decisions of the block.
  std::int32_t offset[kMaxBlocks + 1];
  std::uint64_t cut_above;
  std::int32_t cut_bin, gathered, first, tie_end;
  std::uint32_t edge[2];  ///< keys of a bracket's ends: high, low
  union alignas(16) {
    float thread_max[kMaximaOfThread * kThreads];
    WeightBins bins;
    Ranked ranked;
  };
};

/// The list of candidates in dynamic shared memory: of the first block, filled by all.
struct CandidateList {
  float* value;
  std::int32_t* id;
  int capacity;
};

/// Counts of a block's values by octave, in a ring: bin b of the row's scale at b mod kRing. Lies
/// where the list will be.
struct SampleRing {
  static constexpr int kRing = 2 * kSampleBins;
  std::uint32_t sampled[kRing];  ///< one value in four
  std::uint32_t head[kRing];     ///< all values above the head's end; those are not in `sampled`
};

/// The part of shared memory after the resident steps.
struct DynamicMemory {
  CandidateList list;
  std::uint32_t* scratch;
  SampleRing* ring;

  __device__ DynamicMemory(uint4* dynamic, const RowShape& shape, int threads) {
    auto* behind = reinterpret_cast<float*>(dynamic + shape.resident * threads);
    list = {behind, reinterpret_cast<std::int32_t*>(behind + shape.list_capacity),
            shape.list_capacity};
    ring = reinterpret_cast<SampleRing*>(behind);
    scratch = reinterpret_cast<std::uint32_t*>(behind + 2 * shape.list_capacity);
  }
};

}  // namespace fairdraw::cuda
