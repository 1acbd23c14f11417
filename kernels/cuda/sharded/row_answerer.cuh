// The tokens that rows ask a shard for (sharded/exchange.h).
//
// Contract. For each token that a row asks for: the first of its attempts (common/proposals.h) that
// has a survivor in this shard's whole tiles, bit for bit the CPU's; zeros where there is none.
//
// Algorithm and cost. A block of 256 threads a row: a prefix sum over the tiles of the index, and
// eight attempts at a time, each of which weighs one tile again, by a warp. A row that drops
// nothing has one attempt, a nucleus of p seldom more than 1 / p.
//
// Randomness: the words of attempts. Numerics: common/tile_weights.h. Determinism: integers.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "common/wide_integers.h"
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
  uint128_t place[kEndWarps];  ///< of attempts in the shard's whole tiles
  std::uint64_t rest[kEndWarps];
  int tile[kEndWarps];  ///< -1: in none of this shard's
  sharded::DrawnToken drawn[kEndWarps];
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

  /// The tokens that this shard has, zeros in place of all others.
  __device__ void run() {
    const RowOutputs outputs(task_, number_);
#pragma unroll 1
    for (int t = thread(); t < outputs.tokens(); t += kEndThreads) {
      *answer_at(outputs.at(t)) = {0, 0, 0, 0};
    }
    if (tiles_ == 0) return;
    const int share = (tiles_ + kEndThreads - 1) / kEndThreads;
    TileRange mine{::min(thread() * share, tiles_), 0, 0, 0};
    mine.end = ::min(mine.begin + share, tiles_);
#pragma unroll 1
    for (int tile = mine.begin; tile < mine.end; ++tile) mine.mass += weight_of_tile(tile);
    mine.before = BlockMasses(shared_.masses).prefix(mine.mass).before;
#pragma unroll 1
    for (int t = 0; t < outputs.tokens(); ++t) {
      const std::uint32_t asked = task_.drawn[outputs.at(t)].attempts;
#pragma unroll 1
      for (std::uint32_t first = 0; first < asked; first += kEndWarps) {
        const auto count = static_cast<int>(::min(asked - first, std::uint32_t{kEndWarps}));
        if (answer(outputs, t, first, count, mine)) break;
      }
    }
  }

 private:
  /// Tiles of a thread, and the mass in front of them in the shard's whole tiles.
  struct TileRange {
    int begin, end;
    uint128_t mass, before;
  };

  /// A warp an attempt: whether one of `count` attempts from `first` on has a survivor.
  __device__ bool answer(const RowOutputs& outputs, int t, std::uint32_t first, int count,
                         const TileRange& mine) {
    __syncthreads();  // the attempts before have been read
    if (thread() < count) {
      const auto attempt = first + static_cast<std::uint32_t>(thread());
      // What lies in front of the shard's tiles wraps, and so is in none.
      shared_.place[thread()] =
          multiply_high(outputs.word_of(task_, t, attempt), state_.unfiltered.value()) -
          state_.in_front.value();
      shared_.tile[thread()] = -1;
      shared_.drawn[thread()].attempts = 0;
    }
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < count; ++i) find_tile(i, mine);
    __syncthreads();
    const int warp = warp_of_thread();
    if (warp < count && shared_.tile[warp] >= 0) {
      draw(warp, first + static_cast<std::uint32_t>(warp) + 1);
    }
    __syncthreads();
    int found = 0;
    while (found < count && shared_.drawn[found].attempts == 0) ++found;
    if (found == count) return false;
    if (thread() == 0) *answer_at(outputs.at(t)) = shared_.drawn[found];
    return true;
  }

  /// By the thread that has it.
  __device__ void find_tile(int i, const TileRange& mine) {
    const uint128_t place = shared_.place[i];
    if (place < mine.before || place - mine.before >= mine.mass) return;
    uint128_t rest = place - mine.before;
    int tile = mine.begin;
#pragma unroll 1
    for (; tile + 1 < mine.end; ++tile) {
      const uint128_t weight = weight_of_tile(tile);
      if (rest < weight) break;
      rest -= weight;
    }
    shared_.tile[i] = tile;
    shared_.rest[i] = static_cast<std::uint64_t>(rest >> shift_of(keys_[tile]));
  }

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
  /// By a warp: the token of an attempt, if it survives.
  __device__ void draw(int i, std::uint32_t attempts) {
    const int tile = shared_.tile[i];
    float x[kLaneValues];
    read_tile(tile, x);
    const TileWeights<kFromProbs> rule(from_order_key(keys_[tile]), rule_);
    const bool quick = rule.are_quick();
    std::uint64_t weights[kLaneValues];
#pragma unroll
    for (int j = 0; j < kLaneValues; ++j) {
      const std::uint64_t weight = quick ? rule.weigh(x[j]) : weigh_slowly<kFromProbs>(rule, x[j]);
      weights[j] = order_key(x[j]) > kEmptyTileKey ? weight : 0;
    }
    const int place = token_in_tile(tile, weights, shared_.rest[i]);
    if (lane_of_thread() != 0) return;
    const float value = row_.values[place];
    const std::int32_t key = order_key(value);
    const int id = task_.parts[task_.shard].whole_begin + place;
    if (key < state_.low || (key == state_.low && id >= state_.tie_end)) return;
    const float raw = task_.raw.given ? RowValues::of(task_.raw.whole, number_)[place] : value;
    shared_.drawn[i] = {attempts, id, std::bit_cast<std::uint32_t>(value),
                        std::bit_cast<std::uint32_t>(raw)};
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
