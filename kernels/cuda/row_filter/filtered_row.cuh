// One filtered row on the device: which tokens survive, what they weigh, and log-probabilities.
//
// The record alone says who survives; nothing is filtered a second time. A banned token may have a
// value above the threshold, so bits of `allowed` count here too.
#pragma once

#include <cfloat>
#include <cstdint>

#include "common/exp2fix.h"
#include "cuda/device/read_value.cuh"
#include "cuda/row_filter/filtered_rows.h"
#include "cuda/row_filter/weight_rule.cuh"

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
  const std::uint32_t* edit_bits;  ///< of tokens whose value is in edited_values; null: no edits
  const float* edited_values;

  /// The value of a token, processed where the call is; a banned one may have any.
  __device__ float value(std::int64_t token) const {
    const float x = values[token];
    if (edit_bits == nullptr) return x;
    return is_set(edit_bits[token / 32], token) ? edited_values[token] : x;
  }

  /// A row whose status is ok.
  __device__ static FilteredRow of(const FilteredRows& filtered, std::int64_t row) {
    const RowRecord& record = filtered.records[row];
    const bool from_probs = filtered.from_probs;
    FilteredRow result{};
    result.values = RowValues::of(filtered.rows, row);
    result.vocab = filtered.rows.vocab;
    if (filtered.allowed.given()) {
      result.allowed = filtered.allowed.data + row * filtered.allowed.row_stride;
    }
    result.smallest = from_probs ? kSmallestProbability : -FLT_MAX;
    result.low = record.low;
    result.tie_end = record.tie_end;
    result.greedy_token = record.greedy_token;
    result.weigh = from_probs ? WeightRule::of_probs(record.max)
                              : WeightRule::of_logits(record.max, filtered.temperature.at(row));
    if (filtered.edits.given()) {
      const RowEdits edits = filtered.edits.of(row);
      result.allowed = edits.allowed;
      result.edit_bits = edits.edited;
      result.edited_values = edits.values;
    }
    return result;
  }

  __device__ bool is_allowed(std::int64_t token, float x) const {
    if (!(x >= smallest)) return false;
    return allowed == nullptr || is_set(allowed[token / 32], token);
  }

  __device__ bool keeps(std::int64_t token, float x) const {
    if (greedy_token >= 0) return token == greedy_token;
    return (x > low || (x == low && token < tie_end)) && is_allowed(token, x);
  }

  /// 0 for tokens that do not survive. Not for greedy rows, which weigh nothing.
  __device__ std::uint64_t survivor_weight(std::int64_t token) const {
    const float x = value(token);
    return keeps(token, x) ? weigh(x) : 0;
  }

 private:
  __device__ static bool is_set(std::uint32_t word, std::int64_t number) {
    return ((word >> (number % 32)) & 1U) != 0;
  }
};

// Log-probabilities from integer masses, in double (fairdraw/log_probabilities.h).

/// ln of a sum of weights in units of the largest one.
__device__ inline double log_mass_of(std::uint64_t weight) {
  return log(static_cast<double>(weight) / static_cast<double>(kLargestWeight));
}

/// (x - max) / divisor - log_mass; the divisor is the temperature, 1 where that is 0.
__device__ inline double log_probability(float x, float max, float divisor, double log_mass) {
  const double distance = static_cast<double>(x) - static_cast<double>(max);
  return __ddiv_rn(distance, static_cast<double>(divisor)) - log_mass;
}

}  // namespace fairdraw::cuda
