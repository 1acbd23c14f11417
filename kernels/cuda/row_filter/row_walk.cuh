// What all paths through a row share: who works on it, its parameters, its weights, sums over its
// blocks, the search for a position by prefix sum, and results.
#pragma once

#include <cfloat>
#include <cstdint>
#include <type_traits>

#include "common/parameters.h"
#include "common/philox.h"
#include "common/wide_integers.h"
#include "cuda/device/warp_sums.cuh"
#include "cuda/row_filter/block_memory.cuh"
#include "cuda/row_filter/filter_rows.h"
#include "cuda/row_filter/row_weights.cuh"

namespace fairdraw::cuda {

/// A row's work in one thread.
template <bool kFromProbs, int kThreads>
class RowWork {
 public:
  static constexpr int kWarps = kThreads / kWarp;
  static constexpr float kSmallestAllowed = kFromProbs ? 0x1p-149F : -FLT_MAX;
  using Weight = std::conditional_t<kFromProbs, ProbabilityWeight, LogitWeight>;

  __device__ __forceinline__ RowWork(const RowsTask& task_, int blocks,
                                     BlockMemory<kThreads>& memory_)
      : task(task_),
        memory(memory_),
        cluster{blocks, static_cast<int>(blockIdx.x) % blocks},
        row(static_cast<int>(blockIdx.x) / blocks),
        vocab(static_cast<int>(task_.rows.vocab)),
        thread(static_cast<int>(threadIdx.x)),
        warp(thread / kWarp),
        lane(thread % kWarp) {
    parameters = {task.temperature.at(row), task.top_k.at(row), task.top_p.at(row),
                  task.min_p.at(row)};
    if (draws()) {
      seed = task.seed.at(row);
      offset = task.offset.at(row);
    }
    tie_end = vocab;
  }

  __device__ __forceinline__ bool top_k_on() const { return top_k_is_on(parameters.top_k, vocab); }
  __device__ __forceinline__ bool top_p_on() const { return parameters.top_p < 1.0F; }
  __device__ __forceinline__ bool draws() const { return task.tokens != nullptr; }

  /// The random word of the row's output, which has the row's number.
  __device__ __forceinline__ std::uint64_t word() const {
    const auto index = task.index != nullptr  ? task.index[row]
                       : task.seed.is_array() ? 0U
                                              : static_cast<std::uint32_t>(row);
    return random_word(seed, offset, task.purpose, index);
  }

  __device__ __forceinline__ bool kept(float x, int position) const {
    return x > low || (x == low && position < tie_end);
  }

  /// Gives `mine` to all blocks and waits for theirs: the sums of each block, by rank. Every thread
  /// has `mine`.
  __device__ __forceinline__ const PartSums* exchange(const PartSums& mine) {
    PartSums* slots = memory.sums[exchanges % 2];
    ++exchanges;
    if (thread < cluster.blocks) *cluster.at(&slots[cluster.rank], thread) = mine;
    cluster.sync();
    return slots;
  }

  /// Sum of the warps' sums in memory.warp_sum[which].
  __device__ __forceinline__ std::uint64_t block_sum(int which) const {
    return warp_sum(lane < kWarps ? memory.warp_sum[which][lane] : 0);
  }

  /// Sum of a member over all blocks.
  template <class T>
  __device__ __forceinline__ std::uint64_t total_of(const PartSums* sums,
                                                    T PartSums::*member) const {
    std::uint64_t total = 0;
#pragma unroll 4
    for (int block = 0; block < cluster.blocks; ++block) {
      total += static_cast<std::uint64_t>(sums[block].*member);
    }
    return total;
  }

  /// Block in which the prefix sum of `total` exceeds `left`, which becomes what is left there.
  __device__ __forceinline__ int owner_of(const PartSums* sums, std::uint64_t& left) const {
    std::uint64_t mine = 0;
    if (lane < cluster.blocks) mine = sums[lane].total;
    std::uint64_t inclusive = mine;
#pragma unroll
    for (int distance = 1; distance < kMaxBlocks; distance *= 2) {
      if (distance >= cluster.blocks) break;
      const std::uint64_t before = __shfl_up_sync(kAllLanes, inclusive, distance);
      if (lane >= distance) inclusive += before;
    }
    const unsigned beyond = __ballot_sync(kAllLanes, lane < cluster.blocks && inclusive > left);
    const int owner = __ffs(static_cast<int>(beyond)) - 1;
    left -= __shfl_sync(kAllLanes, inclusive - mine, owner);
    return owner;
  }

  /// The position in this block at which the prefix sum of weigh(x, position) exceeds `left`. The
  /// sums of its warps are in memory.warp_sum[0]. All warps look through the steps of the one that
  /// owns it, one step each. Known to all threads.
  template <class Segment, class Weigh>
  __device__ __forceinline__ int locate(const Segment& segment, std::uint64_t left, Weigh&& weigh) {
    constexpr int kPerVector = Segment::kPerVector;
    const std::uint64_t of_warp = lane < kWarps ? memory.warp_sum[0][lane] : 0;
    const std::uint64_t of_warps = warp_inclusive_sum(of_warp);
    const int owner = __ffs(static_cast<int>(__ballot_sync(kAllLanes, of_warps > left))) - 1;
    left -= __shfl_sync(kAllLanes, of_warps - of_warp, owner);
#pragma unroll 1
    for (int first = 0; first < segment.steps(); first += kWarps) {
      const int step = first + warp;
      std::uint64_t weights[kPerVector];
      std::uint64_t sum = 0;
      int position = 0;
      if (step < segment.steps()) {
        float x[kPerVector];
        segment.read(owner, step, x);
        position = segment.position_of(owner, step);
#pragma unroll
        for (int j = 0; j < kPerVector; ++j) {
          weights[j] = weigh(x[j], position + j);
          sum += weights[j];
        }
      } else {
#pragma unroll
        for (int j = 0; j < kPerVector; ++j) weights[j] = 0;
      }
      const std::uint64_t inclusive = warp_inclusive_sum(sum);
      if (lane == kWarp - 1) memory.warp_sum[1][warp] = inclusive;
      __syncthreads();
      const std::uint64_t of_step = lane < kWarps ? memory.warp_sum[1][lane] : 0;
      const std::uint64_t of_steps = warp_inclusive_sum(of_step);
      const unsigned beyond = __ballot_sync(kAllLanes, of_steps > left);
      if (beyond != 0) {
        const int found = __ffs(static_cast<int>(beyond)) - 1;
        left -= __shfl_sync(kAllLanes, of_steps - of_step, found);
        if (found == warp && left >= inclusive - sum && left < inclusive) {
          left -= inclusive - sum;
          int j = 0;
#pragma unroll
          for (int i = 0; i < kPerVector - 1; ++i) {
            if (j == i && left >= weights[i]) {
              left -= weights[i];
              ++j;
            }
          }
          memory.first = position + j;
        }
        __syncthreads();
        return memory.first;
      }
      left -= __shfl_sync(kAllLanes, of_steps, kWarp - 1);
      __syncthreads();  // the sums of these steps have been read
    }
    return -1;  // not reached: the steps' weights sum to the warp's
  }

  /// One thread of the row's.
  __device__ __forceinline__ void write(const RowRecord& record, int token) const {
    if (task.records != nullptr) task.records[row] = record;
    if (task.heads.given()) {
      const bool cut = record.status == RowStatus::ok && record.greedy_token < 0;
      const int mark = task.noted != nullptr && in_head >= 0 ? RowHeads::kOfTop : 0;
      task.heads.counts[row] = cut ? in_head + mark : 0;
    }
    if (draws()) {
      task.tokens[row] = token;
      if (task.statuses != nullptr) task.statuses[row] = record.status;
    }
  }
  __device__ __forceinline__ void write_cut(std::uint64_t total, int token) const {
    write({RowStatus::ok, -1, max, low, tie_end, 0, total}, token);
  }

  /// All threads of the row's.
  __device__ __forceinline__ void fail(RowStatus status) const {
    if (cluster.rank == 0 && thread == 0) write({status, -1, 0.0F, 0.0F, 0, 0, 0}, -1);
  }

  const RowsTask& task;
  BlockMemory<kThreads>& memory;
  RowCluster cluster;
  int row, vocab, thread, warp, lane;
  RowParameters parameters;
  std::uint64_t seed = 0, offset = 0;
  Weight weight{1.0F};
  float max = 0;
  float base = 0;  ///< what min_p keeps is at least this
  float low = 0;   ///< survivors: see RowRecord
  int tie_end = 0;
  int exchanges = 0;
  int in_head = RowHeads::kNotNoted;  ///< survivors that are noted (task.heads)
};

}  // namespace fairdraw::cuda
