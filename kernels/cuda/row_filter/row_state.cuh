// What the paths through a row share, in one thread: the work, the segment, and what the first walk
// found.
#pragma once

#include "cuda/row_filter/row_walk.cuh"

namespace fairdraw::cuda {

/// Weights this many octaves below the maximum are 0: more than kWeightBits, and less than
/// kSmallestOctave, so that what is kept needs no clamp.
inline constexpr float kWeightlessOctaves = 50.0F;

/// The row's bits of `allowed`; null where all are, and where edits hold them.
template <bool kProcessed>
__device__ __forceinline__ const std::uint32_t* allowed_of(const RowsTask& task, std::int64_t row) {
  if (kProcessed || !task.allowed.given()) return nullptr;
  return task.allowed.data + row * task.allowed.row_stride;
}

__device__ __forceinline__ RowEditsView edits_of(const EditPlanes& planes, std::int64_t row) {
  if (!planes.given()) return {};
  return {planes.bits + row * planes.words_of_row(), planes.values + row * planes.places_of_row};
}

template <DType kType, bool kFromProbs, int kThreads, bool kProcessed>
class RowState {
 public:
  using Segment = RowSegment<kType, kFromProbs, kThreads, kProcessed>;
  using Work = RowWork<kFromProbs, kThreads>;
  static constexpr int kPerVector = Segment::kPerVector;
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr float kSmallestAllowed = Work::kSmallestAllowed;

  __device__ __forceinline__ RowState(const RowsTask& task, const RowShape& shape,
                                      BlockMemory<kThreads>& memory, uint4* dynamic)
      : work_(task, shape.blocks, memory),
        memory_(memory),
        dynamic_(dynamic, shape, kThreads),
        segment_(task.rows, work_.row, allowed_of<kProcessed>(task, work_.row),
                 edits_of(task.edits, work_.row), shape, work_.cluster.rank, dynamic),
        bulk_(shape.bulk_copies) {}

  __device__ __forceinline__ Work& work() { return work_; }

 protected:
  /// A value below which nothing weighs, or `low` where that is larger.
  __device__ __forceinline__ float lowest_with_weight(float low) const {
    if constexpr (kFromProbs) return low;
    return fmaxf(low, work_.max - kWeightlessOctaves / work_.weight.scale);
  }

  Work work_;
  BlockMemory<kThreads>& memory_;
  DynamicMemory dynamic_;
  Segment segment_;
  bool bulk_;
  bool greedy_ = false, needs_sample_ = false;
  float min_p_octaves_ = 0;
  std::uint64_t word_ = 0;    ///< the output's random word
  float thread_max_ = 0;      ///< the largest of this thread's values
  float streamed_max_ = 0;    ///< and of those of steps that are not resident
  float head_threshold_ = 0;  ///< at least as many values as asked for reach it; -inf: all
};

}  // namespace fairdraw::cuda
