// The tokens that rows ask a shard for (sharded/exchange.h).
//
// Contract. For each token that a row, which drops nothing, asks this shard for: the one at its
// place in the shard's whole tiles, bit for bit the CPU's; zeros in place of the tokens that others
// are asked for.
//
// Algorithm and cost. A block of 256 threads a row: a prefix sum over the tiles of the index, and
// for each token one tile again, by a warp.
//
// Randomness: none, places are given. Numerics: common/tile_weights.h. Determinism: integers.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/sharded/row_outputs.cuh"
#include "cuda/sharded/sharded_task.h"
#include "cuda/tiles/block_masses.cuh"
#include "cuda/tiles/filtered_row.cuh"
#include "cuda/tiles/row_weigher.cuh"
#include "cuda/tiles/tile_draw.cuh"

namespace fairdraw::cuda {

/// In dynamic shared memory.
struct AnswerMemory {
  BlockMasses::Memory masses;
  int drawn_tile;
  std::uint64_t drawn_rest;
};

/// Rarely used, so that its code is elsewhere.
template <bool kFromProbs>
__device__ __noinline__ std::uint64_t weigh_slowly(TileWeights<kFromProbs> rule, float x) {
  return rule.weigh_slowly(x);
}

template <bool kFromProbs>
class RowAnswerer {
 public:
  __device__ RowAnswerer(const ShardedTask& task, std::int64_t number, unsigned char* dynamic)
      : task_(task),
        number_(number),
        state_(task.states[number]),
        tiles_(task.tiles()),
        shared_(*reinterpret_cast<AnswerMemory*>(dynamic)),
        sums_(task.sums.data + number * task.sums.row_stride),
        keys_(task.keys.data + number * task.keys.row_stride),
        row_(FilteredRow::whole(task.whole, number, kFromProbs)),
        rule_{state_.scale, true} {
    if (task.whole_allowed.given()) {
      row_.allowed = task.whole_allowed.data + number * task.whole_allowed.row_stride;
    }
  }

  /// The tokens that this shard is asked for, zeros in place of all others.
  __device__ void run() {
    const RowOutputs outputs(task_, number_);
    const auto asked = [&](int t) -> const ShardedToken& { return task_.drawn[outputs.at(t)]; };
    bool any = false;
#pragma unroll 1
    for (int t = 0; t < outputs.tokens(); ++t) {
      any = any || asked(t).shard == task_.shard;
      if (thread() == t % kEndThreads) *answer_at(outputs.at(t)) = {0, 0, 0};
    }
    __syncthreads();
    if (!any || tiles_ == 0) return;
    const int share = (tiles_ + kEndThreads - 1) / kEndThreads;
    const int begin = ::min(thread() * share, tiles_);
    const int end = ::min(begin + share, tiles_);
    uint128_t mine = 0;
#pragma unroll 1
    for (int tile = begin; tile < end; ++tile) mine += weight_of_tile(tile);
    const uint128_t before = BlockMasses(shared_.masses).prefix(mine).before;
#pragma unroll 1
    for (int t = 0; t < outputs.tokens(); ++t) {
      if (asked(t).shard != task_.shard) continue;
      __syncthreads();  // the tile before has been read
      if (thread() == 0) shared_.drawn_tile = -1;
      __syncthreads();
      const uint128_t place = asked(t).place.value();
      if (before <= place && place - before < mine) {
        uint128_t rest = place - before;
        int tile = begin;
#pragma unroll 1
        for (; tile + 1 < end; ++tile) {
          const uint128_t weight = weight_of_tile(tile);
          if (rest < weight) break;
          rest -= weight;
        }
        shared_.drawn_tile = tile;
        shared_.drawn_rest = static_cast<std::uint64_t>(rest >> shift_of(keys_[tile]));
      }
      __syncthreads();
      if (warp_of_thread() == 0 && shared_.drawn_tile >= 0) draw(outputs.at(t));
    }
  }

 private:
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }

  __device__ int shift_of(std::int32_t tile_key) const {
    const float largest = from_order_key(tile_key);
    if constexpr (kFromProbs) {
      return row_shift(state_.octave, octaves_of_probability(largest).whole);
    }
    return row_shift(state_.octave, octaves_of(largest, rule_.scale).whole);
  }
  __device__ uint128_t weight_of_tile(int tile) const {
    if (keys_[tile] == kEmptyTileKey) return 0;
    return row_weight(sums_[tile], shift_of(keys_[tile]));
  }

  /// A tile's values in id order; of the rows that most calls have without the code of all others.
  __device__ void read_tile(int tile, float (&x)[kLaneValues]) const {
    if (row_.values.dtype != DType::float32 || !row_.values.aligned || row_.allowed != nullptr) {
      row_.read_in_order(tile, x);
      return;
    }
    const std::int64_t first = std::int64_t{tile} * kTileSize + lane_of_thread() * kLaneValues;
    const auto* values = reinterpret_cast<const float*>(row_.values.bytes);
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      x[i] = first + i < row_.vocab ? values[first + i] : -INFINITY;
    }
  }
  /// A token of all outputs, in this rank's block.
  __device__ sharded::DrawnToken* answer_at(std::int64_t at) const {
    std::byte* tokens = task_.mine(ShardedExchange::tokens, 0);
    return reinterpret_cast<sharded::DrawnToken*>(tokens) + at;
  }
  /// By a warp.
  __device__ void draw(std::int64_t at) {
    const int tile = shared_.drawn_tile;
    const std::int32_t tile_key = keys_[tile];
    float x[kLaneValues];
    read_tile(tile, x);
    const TileWeights<kFromProbs> rule(from_order_key(tile_key), rule_);
    const bool quick = rule.are_quick();
    std::uint64_t weights[kLaneValues];
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      const std::uint64_t weight = quick ? rule.weigh(x[i]) : weigh_slowly<kFromProbs>(rule, x[i]);
      weights[i] = order_key(x[i]) > kEmptyTileKey ? weight : 0;
    }
    const int id = token_in_tile(tile, weights, shared_.drawn_rest);
    if (lane_of_thread() != 0) return;
    const auto bits = std::bit_cast<std::uint32_t>(row_.values[id]);
    sharded::DrawnToken* drawn = answer_at(at);
    drawn->id = task_.parts[task_.shard].whole_begin + id;
    drawn->bits = bits;
    drawn->raw_bits =
        task_.raw.given ? std::bit_cast<std::uint32_t>(RowValues::of(task_.raw.whole, number_)[id])
                        : bits;
  }

  const ShardedTask& task_;
  std::int64_t number_;
  const ShardedRowState& state_;
  int tiles_;
  AnswerMemory& shared_;
  const std::uint64_t* sums_;
  const std::int32_t* keys_;
  FilteredRow row_;
  TileRule rule_;
};

}  // namespace fairdraw::cuda
