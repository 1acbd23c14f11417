// Computes the largest value of a row, and the weight of all its values, from the row's index.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/rows/filtered_row.cuh"
#include "cuda/tiles/row_index.cuh"
#include "cuda/tiles/row_weigher.cuh"

namespace fairdraw::cuda {

/// Returns the part of an index of all rows that belongs to one row.
__device__ inline RowIndex index_of(const TileIndexResult& index, std::int64_t number,
                                    std::int64_t vocab) {
  return {index.keys.data + number * index.keys.row_stride,
          index.sums.data + number * index.sums.row_stride, static_cast<int>(tiles_of(vocab))};
}

/// Mass of a row of logits at temperature 1.
struct IndexMass {
  /// Shared memory in which the mass is added up.
  struct Scratch {
    BlockScratch<std::int32_t> key;
    BlockScratch<uint128_t> mass;
  };

  float max;
  uint128_t weight;  ///< mass of the row in the row's unit (common/tile_weights.h)

  /// Adds up the mass from an index, with all threads of a block.
  __device__ static IndexMass of(const RowIndex& index, Scratch& scratch) {
    const auto thread = static_cast<int>(threadIdx.x);
    const auto threads = static_cast<int>(blockDim.x);
    std::int32_t key = kEmptyTileKey;
    for (int tile = thread; tile < index.tiles; tile += threads) {
      key = ::max(key, index.keys[tile]);
    }
    key = reduce_block(key, scratch.key, Maximum{});
    const RowWeigher<false> weigher({logit_scale(1.0F), true}, key);
    uint128_t weight = 0;
    for (int tile = thread; tile < index.tiles; tile += threads) {
      if (index.sums[tile] == 0) continue;
      weight += row_weight(index.sums[tile], weigher.shift_of(index.keys[tile]));
    }
    return {from_order_key(key), reduce_block(weight, scratch.mass, Add{})};
  }

  /// Returns the natural logarithm of the mass divided by the weight of the largest value.
  __device__ double log_mass() const { return log_mass_of(weight, max, logit_scale(1.0F)); }
};

}  // namespace fairdraw::cuda
