// One filtered row on the device: which tokens survive, and what they weigh.
//
// The record alone says who survives; nothing is filtered a second time. A banned token may have a
// value above the threshold, so bits of `allowed` count here too.
#pragma once

#include <cfloat>
#include <cstdint>

#include "filtered_rows.h"
#include "read_value.cuh"
#include "weight_rule.cuh"

namespace fairdraw::cuda {

inline constexpr float kSmallestProbability = 0x1p-149F;  ///< above 0: the smallest that is allowed

struct FilteredRow {
  RowValues values;
  std::int64_t vocab;
  const std::uint32_t* allowed;  ///< null: all are
  float smallest;                ///< values below are not allowed: -inf, probabilities of 0
  float low;
  std::int64_t tie_end;
  std::int32_t greedy_token;
  WeightRule weigh;

  /// A row whose status is ok.
  __device__ static FilteredRow of(const FilteredRows& filtered, std::int64_t row) {
    const RowRecord& record = filtered.records[row];
    const bool from_probs = filtered.from_probs;
    FilteredRow result{
        RowValues::of(filtered.rows, row),
        filtered.rows.vocab,
        filtered.allowed.given() ? filtered.allowed.data + row * filtered.allowed.row_stride
                                 : nullptr,
        from_probs ? kSmallestProbability : -FLT_MAX,
        record.low,
        record.tie_end,
        record.greedy_token,
        from_probs ? WeightRule::of_probs(record.max)
                   : WeightRule::of_logits(record.max, filtered.temperature.at(row))};
    return result;
  }

  __device__ bool is_allowed(std::int64_t token, float x) const {
    if (!(x >= smallest)) return false;
    return allowed == nullptr || ((allowed[token / 32] >> (token % 32)) & 1U) != 0;
  }

  __device__ bool keeps(std::int64_t token, float x) const {
    if (greedy_token >= 0) return token == greedy_token;
    return (x > low || (x == low && token < tie_end)) && is_allowed(token, x);
  }

  /// 0 for tokens that do not survive. Not for greedy rows, which weigh nothing.
  __device__ std::uint64_t survivor_weight(std::int64_t token) const {
    const float x = values[token];
    return keeps(token, x) ? weigh(x) : 0;
  }
};

}  // namespace fairdraw::cuda
