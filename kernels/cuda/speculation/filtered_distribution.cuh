// The distribution of a row that has been filtered: what a draw takes (row_draw.cuh).
#pragma once

#include <cstdint>

#include "cuda/row_filter/filtered_row.cuh"
#include "cuda/speculation/relative_weight.cuh"
#include "cuda/speculation/row_draw.cuh"

namespace fairdraw::cuda {

/// Weights of a filtered row. A greedy one is a point mass.
struct FilteredWeight {
  FilteredRow row;
  bool is_plain;  ///< what survives is what is at least `low`, and is quick to weigh
  bool from_probs;
  RelativeLogitWeight of_logit;
  RelativeProbabilityWeight of_probability;

  /// x: the token's value in memory.
  __device__ float operator()(std::int64_t token, float x) const {
    if (!is_plain) return of_special(token, x);
    const float weight = from_probs ? of_probability(x) : of_logit.quick(x);
    return x >= row.low ? weight : 0.0F;
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

/// Requires: the row's status is ok.
__device__ inline Distribution<FilteredWeight> distribution_of(const FilteredRows& rows,
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

}  // namespace fairdraw::cuda
