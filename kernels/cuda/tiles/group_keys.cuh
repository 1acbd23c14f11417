// The largest values of groups of 32 ids, the eighths of tiles, to 16 bits: a finer index for
// top_k.
//
// A group's key is the upper half of its largest value's order_key, rounded down: it says too
// little by less than 2^-7 of the value, never too much. So the k-th largest group key bounds the
// k-th largest value from below, and a group whose key is below a bound's upper half holds nothing
// that reaches the bound. 16 bytes a tile, in shared memory of the row's first block.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "cuda/tiles/row_index.cuh"
#include "cuda/tiles/tile_values.cuh"

namespace fairdraw::cuda {

inline constexpr int kGroup = 32;
inline constexpr int kGroupsOfTile = kTileSize / kGroup;

struct GroupKeys {
  using Key = std::int16_t;
  static constexpr int kDropped = 16;  ///< bits of an order_key

  Key* keys;  ///< [tiles][kGroupsOfTile], at a multiple of 16 bytes

  __host__ __device__ static constexpr int bytes(std::int64_t tiles) {
    return static_cast<int>(tiles) * kGroupsOfTile * static_cast<int>(sizeof(Key));
  }

  /// Bit i: group i of the tile may hold a value whose order_key is at least `bound`.
  __device__ unsigned reaching(int tile, std::int32_t bound) const {
    unsigned bits = 0;
    const uint4 raw = reinterpret_cast<const uint4*>(keys)[tile];
    const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < kGroupsOfTile; ++i) {
      const auto key = static_cast<Key>(words[i / 2] >> (16 * (i % 2)));
      bits |= key >= bound >> kDropped ? 1U << i : 0U;
    }
    return bits;
  }

  /// Calls visit(key) with full-length lower bounds, for the groups of a tile.
  template <class Visit>
  __device__ void for_each(int tile, const Visit& visit) const {
    const uint4 raw = reinterpret_cast<const uint4*>(keys)[tile];
    const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      visit(static_cast<std::int32_t>(words[i] << kDropped));
      visit(static_cast<std::int32_t>(words[i] & 0xffff0000U));
    }
  }

  /// Sends the keys of a tile that a warp has in registers, not banned, to the row's first block.
  template <DType kType, TileAccess kAccess>
  __device__ void send(const RowCluster& cluster, int tile, const float (&x)[kLaneValues]) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    Key* to = cluster.at(keys, 0) + tile * kGroupsOfTile;
    if constexpr (kAccess == TileAccess::values) {
#pragma unroll
      for (int i = 0; i < kLaneValues; ++i) {
        const std::int32_t key = __reduce_max_sync(kAllLanes, order_key(x[i]));
        if (lane == i) to[i] = static_cast<Key>(key >> kDropped);
      }
    } else if constexpr (kType == DType::float32) {
      constexpr int kLanes = 8;  // of a group, a quad of each half of the tile
      float first = fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3]));
      float second = fmaxf(fmaxf(x[4], x[5]), fmaxf(x[6], x[7]));
#pragma unroll
      for (int distance = 1; distance < kLanes; distance *= 2) {
        first = fmaxf(first, __shfl_xor_sync(kAllLanes, first, distance));
        second = fmaxf(second, __shfl_xor_sync(kAllLanes, second, distance));
      }
      if (lane % kLanes < 2) {
        to[lane / kLanes + lane % kLanes * (kGroupsOfTile / 2)] =
            static_cast<Key>(order_key(lane % kLanes == 0 ? first : second) >> kDropped);
      }
    } else {
      constexpr int kLanes = 4;
      float largest = fmaxf(fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3])),
                            fmaxf(fmaxf(x[4], x[5]), fmaxf(x[6], x[7])));
#pragma unroll
      for (int distance = 1; distance < kLanes; distance *= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, distance));
      }
      if (lane % kLanes == 0) {
        to[lane / kLanes] = static_cast<Key>(order_key(largest) >> kDropped);
      }
    }
  }
};

}  // namespace fairdraw::cuda
