// Test of a row's values that a warp reads tile by tile: whether they survive the filters.
#pragma once

#include <cfloat>
#include <climits>
#include <cstdint>

#include "common/float_order.h"
#include "cuda/rows/filtered_row.cuh"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// Rule that tells which tokens of a row survive, taken from the row's record.
struct KeptRule {
  float low;  ///< threshold: larger values survive, and also equal values with ids below tie_end
  int tie_end;
  int greedy_token;  ///< token of a greedy row, or -1 if the row is not greedy

  __device__ static KeptRule of(const RowRecord& record, bool from_probs) {
    const float smallest = from_probs ? kSmallestProbability : -FLT_MAX;
    // Values of tokens that are not allowed have already been replaced by values below `smallest`.
    if (record.low < smallest) return {smallest, INT_MAX, record.greedy_token};
    return {record.low, record.tie_end, record.greedy_token};
  }
  __device__ bool reaches(int tile, std::int32_t key) const {
    return greedy_token >= 0 ? tile == greedy_token / kTileSize : key >= order_key(low);
  }
  __device__ bool keeps(float x, int id) const {
    if (greedy_token >= 0) return id == greedy_token;
    return x > low || (x == low && id < tie_end);
  }
};

}  // namespace fairdraw::cuda
