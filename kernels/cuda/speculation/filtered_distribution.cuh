// Distribution of a filtered row, in the form that a draw needs (row_draw.cuh).
#pragma once

#include <cstdint>

#include "cuda/rows/filtered_row.cuh"
#include "cuda/speculation/relative_weight.cuh"
#include "cuda/speculation/row_draw.cuh"

namespace fairdraw::cuda {

/// Rule from which the weights of a filtered row's tokens follow. The distribution of a greedy row
/// has a single token, of probability 1.
struct FilteredWeight {
  FilteredRow row;
  bool is_plain;  ///< whether the survivors are the values that are at least `low`, and float
                  ///< arithmetic weighs them exactly
  bool from_probs;
  RelativeLogitWeight of_logit;
  RelativeProbabilityWeight of_probability;

  /// Returns the weight of a token; x is the token's value in memory.
  __device__ float operator()(std::int64_t token, float x) const {
    if (!is_plain) return of_special(token, x);
    const float weight = from_probs ? of_probability(x) : of_logit.quick(x);
    return x >= row.low ? weight : 0.0F;
  }

  /// Returns a value that has the weight 0.
  __device__ float weightless() const { return row.nothing(); }
  /// Replaces the values of the tokens first, first + 32 and so on, as they are in memory, by the
  /// tokens' weights. The function tests conditions that do not depend on the token only once,
  /// because their values may not be in registers.
  __device__ __forceinline__ void lane(std::int64_t first, std::int64_t vocab,
                                       float (&x)[kLaneTokens]) const {
    if (!is_plain) {
#pragma unroll
      for (int i = 0; i < kLaneTokens; ++i) {
        const std::int64_t token = first + i * kWarp;
        x[i] = token < vocab ? of_special(token, x[i]) : 0.0F;
      }
      return;
    }
    const float low = row.low;
    const auto weigh_all = [&x, low](const auto& weigh) {
#pragma unroll
      for (float& value : x) {
        const float weight = weigh(value);
        value = value >= low ? weight : 0.0F;
      }
    };
    if (from_probs) {
      weigh_all([of = of_probability](float value) { return of(value); });
    } else {
      weigh_all([of = of_logit](float value) { return of.quick(value); });
    }
  }

 private:
  __device__ __noinline__ float of_special(std::int64_t token, float x) const {
    if (row.greedy_token >= 0) return token == row.greedy_token ? 1.0F : 0.0F;
    if (row.edit_bits != nullptr) x = row.value(token);
    if (!row.keeps(token, x)) return 0.0F;
    if (from_probs) return of_probability(x);
    return of_logit.is_quick() ? of_logit.quick(x) : of_logit.slow(x);
  }
};

using FilteredDistribution = Distribution<FilteredWeight>;

/// Returns the distribution of a filtered row. Precondition: the row's status is ok.
__device__ inline FilteredDistribution distribution_of(const FilteredRows& rows,
                                                       std::int64_t number) {
  const RowRecord& record = rows.records[number];
  const FilteredRow row = FilteredRow::of(rows, number);
  const RelativeLogitWeight of_logit(record.max,
                                     rows.from_probs ? 1.0F : rows.temperature.at(number));
  const bool is_greedy = row.greedy_token >= 0;
  const bool is_plain = !is_greedy && row.edit_bits == nullptr && row.allowed == nullptr &&
                        row.tie_end >= row.vocab && row.low >= row.smallest &&
                        (rows.from_probs || of_logit.is_quick());
  return {row.values,
          {row, is_plain, rows.from_probs, of_logit, RelativeProbabilityWeight(record.max)},
          is_greedy ? TotalBounds::known(1) : TotalBounds::of_row(record.total_high, row.vocab)};
}

/// Distribution in shared memory, from which all threads of a block compute weights. If each thread
/// had a copy, the copies would be in local memory, and together they would not fit into the cache.
/// The storage is an array of bytes, because a variable in shared memory must not have a
/// constructor.
class SharedDistribution {
 public:
  /// Sets the distribution. All threads of the block must call this function with the same
  /// argument.
  __device__ void set(const FilteredDistribution& distribution) {
    __syncthreads();
    if (threadIdx.x == 0) get() = distribution;
    __syncthreads();
  }
  /// Sets the total. All threads of the block must call this function with the same argument.
  __device__ void know_total(std::uint64_t total) {
    __syncthreads();
    if (threadIdx.x == 0) get().bounds = TotalBounds::known(total);
    __syncthreads();
  }
  __device__ FilteredDistribution& get() {
    return *reinterpret_cast<FilteredDistribution*>(memory_);
  }

 private:
  alignas(FilteredDistribution) unsigned char memory_[sizeof(FilteredDistribution)];
};

}  // namespace fairdraw::cuda
