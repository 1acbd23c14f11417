// Loads the parameters of a row, derives the random words of its draw, and writes its results.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "common/parameters.h"
#include "common/wide_integers.h"
#include "cuda/device/device_assert.h"
#include "cuda/device/warp_sums.cuh"
#include "cuda/tiles/filter_rows.h"
#include "cuda/tiles/row_cut.cuh"

namespace fairdraw::cuda {

/// Parameters of a row in shared memory, to which they are copied asynchronously. The copies begin
/// before the copies of the row's tiles, because a load that queues behind the first tiles of all
/// rows of a large batch takes as long as those tiles.
class ArrivingParameters {
 public:
  /// Starts to copy the parameters of a row, with one word per lane. One warp of the block must
  /// call this function.
  __device__ __forceinline__ void start(const RowsTask& task, std::int64_t row) {
    Source source{};
    source.select<0>(task.temperature, row);
    source.select<1>(task.top_k, row);
    source.select<2>(task.top_p, row);
    source.select<3>(task.min_p, row);
    source.select<4>(task.seed, row);
    source.select<6>(task.offset, row);
    source.select<8>(task.tie_rule, row);
    source.select<9>(task.filter_order, row);
    if (lane_of_thread() >= kWords) return;
    std::uint32_t* const to = words_ + lane_of_thread();
    if (source.at == nullptr) {
      *to = source.scalar;
      return;
    }
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(source.at)
                 : "memory");
  }
  /// Ends the warp's group of copies of the parameters.
  __device__ __forceinline__ static void commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  /// Waits for the group of copies of the parameters; after this group, the warp may have begun
  /// kLater other groups. Other warps may read the parameters after a barrier.
  template <int kLater>
  __device__ __forceinline__ static void await() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kLater) : "memory");
  }

  __device__ __forceinline__ RowParameters parameters(bool from_probs) const {
    return {from_probs ? 1.0F : std::bit_cast<float>(words_[0]),
            static_cast<std::int32_t>(words_[1]), std::bit_cast<float>(words_[2]),
            std::bit_cast<float>(words_[3])};
  }
  __device__ __forceinline__ TieRule tie_rule() const { return static_cast<TieRule>(words_[8]); }
  __device__ __forceinline__ FilterOrder filter_order() const {
    return static_cast<FilterOrder>(words_[9]);
  }
  __device__ __forceinline__ std::uint64_t seed() const { return long_word(4); }
  __device__ __forceinline__ std::uint64_t offset() const { return long_word(6); }

 private:
  static constexpr int kWords = 10;

  /// Source of the word that a lane copies: an address, or a value that all rows of the call share.
  struct Source {
    const std::uint32_t* at;
    std::uint32_t scalar;

    /// Selects the words of a parameter as the sources of the lanes from kLane on.
    template <int kLane, class T>
    __device__ __forceinline__ void select(const PerRequest<T>& parameter, std::int64_t row) {
      constexpr int kCount = sizeof(T) / sizeof(std::uint32_t);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (lane_of_thread() != kLane + i) continue;
        at = parameter.is_array()
                 ? reinterpret_cast<const std::uint32_t*>(parameter.values.data + row) + i
                 : nullptr;
        if constexpr (kCount == 1) {
          scalar = std::bit_cast<std::uint32_t>(parameter.scalar);
        } else {
          scalar = static_cast<std::uint32_t>(parameter.scalar >> (32 * i));
        }
      }
    }
  };

  __device__ __forceinline__ std::uint64_t long_word(int first) const {
    return words_[first] | (static_cast<std::uint64_t>(words_[first + 1]) << 32);
  }

  std::uint32_t words_[kWords];
};

/// Returns the words from which the random words of a row's draw follow.
__device__ __forceinline__ DrawWords words_of_row(const RowsTask& task, std::int64_t row,
                                                  const ArrivingParameters& arrived) {
  if (task.draws != nullptr) return task.draws[row];
  const std::uint32_t index = task.seed.is_array() ? 0 : static_cast<std::uint32_t>(row);
  return {arrived.seed(), arrived.offset(), task.purpose, index};
}

/// Destination of a row's results, with null for results that were not requested.
struct RowOutputs {
  std::int32_t* token;
  RowStatus* status;
  RowRecord* record;
  std::int32_t* keys;  ///< keys of the row's tiles
#ifdef FAIRDRAW_DEVICE_ASSERTS
  std::uint32_t* ends;
#endif

  __device__ __forceinline__ static RowOutputs of(const RowsTask& task, std::int64_t row) {
    RowOutputs outputs{};
    if (task.tokens != nullptr) outputs.token = task.tokens + row;
    if (task.statuses != nullptr) outputs.status = task.statuses + row;
    if (task.records != nullptr) outputs.record = task.records + row;
    if (task.keys.given()) outputs.keys = task.keys.data + row * task.keys.row_stride;
#ifdef FAIRDRAW_DEVICE_ASSERTS
    outputs.ends = task.ends;
#endif
    return outputs;
  }
};

/// Counts a finished row in test builds.
__device__ __forceinline__ void count_end(const RowOutputs& outputs, RowEndKind end) {
#ifdef FAIRDRAW_DEVICE_ASSERTS
  if (outputs.ends != nullptr) atomicAdd(outputs.ends + static_cast<int>(end), 1U);
#else
  static_cast<void>(outputs), static_cast<void>(end);
#endif
}

/// Writes the results of a row whose status is not ok.
__device__ inline void write_failure(const RowOutputs& outputs, RowStatus status) {
  if (outputs.token != nullptr) *outputs.token = -1;
  if (outputs.status != nullptr) *outputs.status = status;
  if (outputs.record != nullptr) *outputs.record = {status, -1, 0, 0, 0, 0, 0, 0};
}

/// Writes the results of a greedy row, which has one survivor.
__device__ inline void write_greedy(const RowOutputs& outputs, std::int32_t token,
                                    std::int32_t largest) {
  FAIRDRAW_DEVICE_ASSERT(token >= 0);
  count_end(outputs, RowEndKind::index);
  if (outputs.token != nullptr) *outputs.token = token;
  if (outputs.status != nullptr) *outputs.status = RowStatus::ok;
  if (outputs.record == nullptr) return;
  const float max = from_order_key(largest);
  *outputs.record = {RowStatus::ok, token, max, max, token + 1, 0, 0, 0};
}

/// Writes the results of a row whose status is ok, with the thread that has the row's token.
/// `floor` is written to the RowRecord.
__device__ inline void write_drawn(const RowOutputs& outputs, RowEndKind end, std::int32_t token,
                                   std::int32_t largest, const RowCut& cut, uint128_t total,
                                   float floor = INFINITY) {
  FAIRDRAW_DEVICE_ASSERT(token >= 0);
  count_end(outputs, end);
  if (outputs.token != nullptr) *outputs.token = token;
  if (outputs.status != nullptr) *outputs.status = RowStatus::ok;
  if (outputs.record == nullptr) return;
  *outputs.record = {RowStatus::ok,
                     -1,
                     from_order_key(largest),
                     from_order_key(cut.low),
                     cut.tie_end,
                     floor,
                     static_cast<std::uint64_t>(total),
                     static_cast<std::uint64_t>(total >> 64)};
}

}  // namespace fairdraw::cuda
