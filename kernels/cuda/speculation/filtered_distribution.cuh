// The distribution of a row that the row kernel has filtered, or weighed: what a draw takes
// (row_draw.cuh).
#pragma once

#include <cstdint>

#include "cuda/row_filter/filtered_row.cuh"
#include "cuda/row_filter/row_weights.cuh"
#include "cuda/speculation/row_draw.cuh"

namespace fairdraw::cuda {

/// Weights of a filtered row. A greedy one is a point mass.
struct FilteredWeight {
  FilteredRow row;
  bool is_plain;  ///< what survives is what is at least `low`
  bool from_probs;
  LogitWeight of_logit;
  ProbabilityWeight of_probability;

  /// x: the token's value in memory.
  __device__ float operator()(std::int64_t token, float x) const {
    if (!is_plain) return of_special(token, x);
    return x >= row.low ? weight(x) : 0.0F;
  }

 private:
  __device__ float weight(float x) const {
    return float_weight(from_probs ? of_probability(x) : of_logit(x));
  }
  __device__ __noinline__ float of_special(std::int64_t token, float x) const {
    if (row.greedy_token >= 0) return token == row.greedy_token ? 1.0F : 0.0F;
    if (row.edit_bits != nullptr) x = row.value(token);
    return row.keeps(token, x) ? weight(x) : 0.0F;
  }
};

/// Requires: the row's status is ok.
__device__ inline Distribution<FilteredWeight> distribution_of(const FilteredRows& rows,
                                                               std::int64_t number) {
  const RowRecord& record = rows.records[number];
  const FilteredRow row = FilteredRow::of(rows, number);
  LogitWeight of_logit(rows.from_probs ? 1.0F : rows.temperature.at(number));
  of_logit.set_max(record.max);
  ProbabilityWeight of_probability(1.0F);
  of_probability.set_max(record.max);
  const bool is_plain = row.greedy_token < 0 && row.edit_bits == nullptr &&
                        row.allowed == nullptr && row.tie_end >= row.vocab &&
                        row.low >= row.smallest;
  return {row.values,
          {row, is_plain, rows.from_probs, of_logit, of_probability},
          row.greedy_token >= 0 ? 1 : record.total};
}

}  // namespace fairdraw::cuda
