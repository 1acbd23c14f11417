// Tokens from a row's index: the end of a row that is drawn from, and that of a greedy one.
//
// Contract. One block, all threads, an index that all of them can read: the row's largest key, and
// from it its status; then draws, each by one word, or the lowest id among the largest values.
//
// Algorithm and cost. Each thread has a run of tiles (one, of vocabularies of 128 k and 512
// threads). Three barriers: largest key; row weights and their prefix sums over the threads, in 128
// bits; the thread whose run holds R finds the tile. Then a warp a draw reads that tile again, in
// id order, and finds the token by a prefix sum over lanes. Draws come kBatch at a time.
//
// Numerics: common/tile_weights.h. Octaves are the definition's, in double: two instructions a
// tile, and no branch. Determinism: integers throughout.
#pragma once

#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/tiles/row_index.cuh"
#include "cuda/tiles/tile_pass.cuh"

namespace fairdraw::cuda {

/// The largest key of an index, and the first tile that has it.
struct LargestTile {
  std::int32_t key;
  int tile;
};

/// Which allowed values of a row survive: those with (x - max) * scale >= octaves, each operation
/// rounded once. Of probabilities max is 0 and scale 1.
struct MinPRule {
  float max = 0.0F;
  float scale = 1.0F;
  float octaves = -INFINITY;

  __device__ bool keeps(float x) const { return __fmul_rn(__fsub_rn(x, max), scale) >= octaves; }
};

/// Shared memory of a block that draws.
struct DrawMemory {
  static constexpr int kBatch = 32;  ///< draws

  struct Pick {
    int tile;
    std::uint64_t within;  ///< where in the tile's own sum
  };
  LargestTile largest[kMaxWarps];
  std::uint64_t sums[kMaxWarps][2];  ///< row weight of each warp's tiles: low, high
  std::uint64_t words[kBatch];
  Pick picks[kBatch];
};

/// Each thread's run of tiles.
struct TileRun {
  int begin, end;

  __device__ static TileRun of(int tiles) {
    const int length = (tiles + static_cast<int>(blockDim.x) - 1) / static_cast<int>(blockDim.x);
    const int begin = ::min(tiles, static_cast<int>(threadIdx.x) * length);
    return {begin, ::min(tiles, begin + length)};
  }
};

/// One barrier.
__device__ inline LargestTile largest_tile(const RowIndex& index, DrawMemory& memory) {
  const auto of_warp = [](LargestTile mine) {
    const std::int32_t key = __reduce_max_sync(kAllLanes, mine.key);
    const int tile = __reduce_min_sync(kAllLanes, mine.key == key ? mine.tile : INT_MAX);
    return LargestTile{key, tile};
  };
  const TileRun run = TileRun::of(index.tiles);
  LargestTile mine{INT_MIN, INT_MAX};
  for (int tile = run.begin; tile < run.end; ++tile) {
    if (index.keys[tile] > mine.key) mine = {index.keys[tile], tile};
  }
  mine = of_warp(mine);
  if (lane_of_thread() == 0) memory.largest[warp_of_thread()] = mine;
  __syncthreads();
  const bool is_warp = lane_of_thread() < warps_of_block();
  return of_warp(is_warp ? memory.largest[lane_of_thread()] : LargestTile{INT_MIN, INT_MAX});
}

/// A row whose index has been made, as its ends read it.
template <DType kType, bool kFromProbs>
class IndexedRow {
 public:
  __device__ IndexedRow(const TileRow<kType>& row, const RowIndex& index, const TileRule& rule,
                        const MinPRule& min_p)
      : row_(row), index_(index), rule_(rule), min_p_(min_p) {}

  /// Draws `count` tokens, at most kBatch, by memory.words, and calls write(i, token) for each by
  /// one thread. `largest`: the row's largest key, of a row that is ok. Two barriers; the words are
  /// visible to all threads before the first one only to the threads that wrote them.
  template <class Write>
  __device__ void draw(std::int32_t largest, int count, DrawMemory& memory, const Write& write) {
    const double row_octave = octave_of(largest);
    const TileRun run = TileRun::of(index_.tiles);
    uint128_t mine = 0;
    for (int tile = run.begin; tile < run.end; ++tile) mine += weight_of(tile, row_octave);
    const uint128_t upto_in_warp = inclusive_sum_of_warp(mine);
    if (lane_of_thread() == kWarp - 1) {
      memory.sums[warp_of_thread()][0] = static_cast<std::uint64_t>(upto_in_warp);
      memory.sums[warp_of_thread()][1] = static_cast<std::uint64_t>(upto_in_warp >> 64);
    }
    __syncthreads();
    uint128_t before = 0;
    uint128_t total = 0;
    for (int warp = 0; warp < warps_of_block(); ++warp) {
      const uint128_t of_warp =
          (static_cast<uint128_t>(memory.sums[warp][1]) << 64) | memory.sums[warp][0];
      if (warp < warp_of_thread()) before += of_warp;
      total += of_warp;
    }
    const uint128_t end = before + upto_in_warp;
    for (int i = 0; i < count; ++i) {
      const uint128_t target = multiply_high(memory.words[i], total);
      if (target < end && target >= end - mine) {
        memory.picks[i] = pick(target - (end - mine), run.begin, row_octave);
      }
    }
    __syncthreads();
    for (int i = warp_of_thread(); i < count; i += warps_of_block()) {
      const std::int32_t token = token_at(memory.picks[i]);
      if (lane_of_thread() == 0) write(i, token);
    }
  }

  /// The first id in a tile whose value has the row's largest key, on every lane of a warp.
  __device__ std::int32_t first_largest(const LargestTile& largest) const {
    float x[kLaneValues];
    read_in_order(largest.tile, x);
    int place = kLaneValues;
#pragma unroll
    for (int i = kLaneValues - 1; i >= 0; --i) place = order_key(x[i]) == largest.key ? i : place;
    const unsigned lanes = __ballot_sync(kAllLanes, place < kLaneValues);
    const int lane = __ffs(static_cast<int>(lanes)) - 1;
    return __shfl_sync(kAllLanes, first_token(largest.tile) + place, lane);
  }

 private:
  /// Each lane has kLaneValues neighbours, in id order.
  __device__ static int first_token(int tile) {
    return tile * kTileSize + lane_of_thread() * kLaneValues;
  }

  /// What is banned or beyond the row weighs nothing.
  __device__ void read_in_order(int tile, float (&x)[kLaneValues]) const {
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      const int token = first_token(tile) + i;
      x[i] = kFromProbs ? 0.0F : -INFINITY;
      if (token < row_.vocab() && row_.is_allowed(token)) x[i] = row_[token];
    }
  }

  __device__ double octave_of(std::int32_t key) const {
    const float maximum = from_order_key(key);
    if constexpr (kFromProbs) return octaves_of_probability(maximum).whole;
    return octaves_of(maximum, rule_.scale).whole;
  }

  __device__ uint128_t weight_of(int tile, double row_octave) const {
    if (index_.sums[tile] == 0) return 0;
    return row_weight(index_.sums[tile], row_shift(row_octave, octave_of(index_.keys[tile])));
  }

  /// The tile that holds `target`, from the first one of a run on.
  __device__ DrawMemory::Pick pick(uint128_t target, int tile, double row_octave) const {
    uint128_t weight = weight_of(tile, row_octave);
    while (target >= weight) {
      target -= weight;
      weight = weight_of(++tile, row_octave);
    }
    const int shift = row_shift(row_octave, octave_of(index_.keys[tile]));
    return {tile, static_cast<std::uint64_t>(target >> shift)};
  }

  __device__ std::int32_t token_at(const DrawMemory::Pick& pick) const {
    const TileWeights<kFromProbs> weights(from_order_key(index_.keys[pick.tile]), rule_);
    float x[kLaneValues];
    read_in_order(pick.tile, x);
    std::uint64_t of_token[kLaneValues];
    std::uint64_t mine = 0;
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      of_token[i] = weights.are_quick() ? weights.weigh(x[i]) : weights.weigh_slowly(x[i]);
      if (!min_p_.keeps(x[i])) of_token[i] = 0;
      mine += of_token[i];
    }
    const std::uint64_t end = inclusive_sum_of_warp(mine);
    const int lane = __ffs(static_cast<int>(__ballot_sync(kAllLanes, end > pick.within))) - 1;
    std::uint64_t before = end - mine;
    int place = 0;
#pragma unroll
    for (int i = 0; i < kLaneValues - 1; ++i) {
      before += of_token[i];
      place += before <= pick.within ? 1 : 0;
    }
    return __shfl_sync(kAllLanes, first_token(pick.tile) + place, lane);
  }

  const TileRow<kType>& row_;
  RowIndex index_;
  TileRule rule_;
  MinPRule min_p_;
};

}  // namespace fairdraw::cuda
