// Filters of a row, and the cut that they leave: a threshold on values, and a threshold on the ids
// of the tokens whose values equal the first threshold.
#pragma once

#include <cstdint>

#include "common/wide_integers.h"

namespace fairdraw::cuda {

/// Filters of a row.
struct RowFilters {
  int vocab;
  std::int32_t top_k;  ///< 0: off
  float top_p;         ///< 1: off
  float min_p;         ///< 0: off
  bool lowest_id;      ///< exactly k tokens stay
  bool by_row_mass;    ///< whether top_p is relative to row_mass; otherwise top_p is relative to
                       ///< the mass that top_k and min_p keep
  uint128_t row_mass;
  std::uint64_t word;

  __device__ bool top_k_on() const { return top_k > 0; }
  __device__ bool top_p_on() const { return top_p < 1.0F; }
  __device__ bool min_p_on() const { return min_p > 0.0F; }
};

/// Interval of keys from low to high, both included.
struct KeyInterval {
  std::int32_t low, high;

  __device__ bool holds(std::int32_t key) const { return key >= low && key <= high; }
  __device__ bool single() const { return low == high; }
  /// Returns the key in the middle, rounded down. The differences are unsigned, because an interval
  /// may be wider than 2^31.
  __device__ std::int32_t lower_middle() const {
    const std::uint32_t width = static_cast<std::uint32_t>(high) - static_cast<std::uint32_t>(low);
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(low) + width / 2);
  }
};

/// Survivors of filters: the tokens with keys above `low`, and the tokens with keys equal to `low`
/// and ids below tie_end.
struct RowCut {
  std::int32_t low;
  int tie_end;

  __device__ bool keeps(std::int32_t key, int id) const {
    return key > low || (key == low && id < tie_end);
  }
};

}  // namespace fairdraw::cuda
