// Draws tokens from the index of a row, or finds the token of a greedy row.
//
// Contract. A block that can read a row's index and knows the row's largest key draws tokens, with
// one random word each, or finds the lowest id among the row's largest values.
//
// Algorithm and cost. Tiles are combined into groups of 32. The warps of the block add up the
// weights of each group in the row's unit, as 128-bit integers, with one barrier. Then one warp per
// draw makes three searches by prefix sums. The first search finds the group of tiles that contains
// the drawn position R, the second finds the tile in the group, and the third finds the token in
// the tile. The values of this tile are read again in the order of ids. All three searches share
// one piece of code, because a short kernel has to load each instruction from memory the first
// time, and code that runs again is already loaded.
//
// Rows without filters, and rows with min_p alone, use draw_by_block instead, with all threads of a
// block. Each thread has a range of consecutive tiles. Prefix sums over the lanes of each warp, and
// after a barrier over the warps, find the warp and the thread whose range contains the drawn
// position, and this warp draws the token.
//
// Numerics: the weights are defined in common/tile_weights.h. Octaves are computed as doubles, as
// in their definition, which takes two instructions per tile and no branch. Determinism: integers
// throughout.
#pragma once

#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/device/tile_spread.h"
#include "cuda/tiles/row_index.cuh"
#include "cuda/tiles/row_weigher.cuh"
#include "cuda/tiles/tile_pass.cuh"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Rule by which min_p keeps a value x: (x - max) * scale >= octaves, where each operation is
/// rounded once. For probabilities, max is 0 and scale is 1.
struct MinPRule {
  float max = 0.0F;
  float scale = 1.0F;
  float octaves = -INFINITY;

  __device__ __forceinline__ bool keeps(float x) const {
    return __fmul_rn(__fsub_rn(x, max), scale) >= octaves;
  }
  __device__ __forceinline__ bool keeps(float x, int) const { return keeps(x); }
  __device__ __forceinline__ bool takes(std::int32_t) const { return true; }
};

/// Rule by which a cut keeps values: the values above `low`, and the values equal to `low` with ids
/// below tie_end.
struct CutRule {
  float low;
  int tie_end;

  __device__ __forceinline__ bool keeps(float x, int id) const {
    return x > low || (x == low && id < tie_end);
  }
  __device__ __forceinline__ bool takes(std::int32_t) const { return true; }
};

/// Tiles from which proposals are drawn (common/proposals.h): all tiles whose largest key min_p
/// keeps, with all of their allowed tokens.
struct ProposedTiles {
  std::int32_t lowest;

  __device__ __forceinline__ bool keeps(float, int) const { return true; }
  __device__ __forceinline__ bool takes(std::int32_t key) const { return key >= lowest; }
};

/// Drawn token, its value, and the total weight of all tokens that the draw could choose.
struct DrawnToken {
  std::int32_t token;
  float value;
  uint128_t total;
};

inline constexpr int kMaxGroups = kMaxVocab / kTileSize / kWarp;

/// Weight of each group of 32 tiles in the row's unit, in shared memory.
struct TileGroups {
  uint128_t weights[kMaxGroups];
};

/// Returns the first lane whose inclusive prefix sum is above the target.
template <class Sum>
__device__ __forceinline__ int first_above(Sum upto, Sum target) {
  return __ffs(static_cast<int>(__ballot_sync(kAllLanes, upto > target))) - 1;
}

/// Returns the token at a position in a tile, on all lanes; each lane has the weights of
/// kLaneValues consecutive ids. Precondition: the position is below the sum of the tile's weights.
__device__ __forceinline__ std::int32_t token_in_tile(int tile,
                                                      const std::uint64_t (&weights)[kLaneValues],
                                                      std::uint64_t position) {
  std::uint64_t of_lane = 0;
#pragma unroll
  for (const std::uint64_t weight : weights) of_lane += weight;
  const auto upto = static_cast<std::uint64_t>(warp_inclusive_sum(of_lane));
  const int lane = first_above(upto, position);
  FAIRDRAW_DEVICE_ASSERT(lane >= 0);
  std::uint64_t before = upto - of_lane;
  int place = 0;
#pragma unroll
  for (int i = 0; i < kLaneValues - 1; ++i) {
    before += weights[i];
    place += before <= position ? 1 : 0;
  }
  return tile * kTileSize + lane * kLaneValues + __shfl_sync(kAllLanes, place, lane);
}

/// Row with an index, as the code that finishes the row uses it. The index has the sums of the
/// tokens that `keep` keeps, and only tiles whose keys `keep` accepts are counted. The type Row
/// must have the function read_in_order(tile, x), as RowOfTiles has.
template <class Row, bool kFromProbs, class Keep>
class IndexedRow {
 public:
  __device__ IndexedRow(const Row& row, const RowIndex& index, const TileWeighing& rule,
                        const Keep& keep, std::int32_t largest)
      : row_(row),
        index_(index),
        rule_(rule),
        keep_(keep),
        largest_(largest),
        octave_(rule.scale, largest) {}

  __device__ __forceinline__ const RowIndex& index() const { return index_; }

  /// Sums the weights of each group with the first `warps` warps of a block, which must meet at a
  /// barrier before the first draw.
  __device__ void sum_groups(TileGroups& groups, int warps) const {
    sum_groups(groups, warps, [](int, const uint128_t&) {});
  }
  /// Sums the weights of each group, and calls visit(tile, weight) once for each tile.
  template <class Visit>
  __device__ __forceinline__ void sum_groups(TileGroups& groups, int warps,
                                             const Visit& visit) const {
    for (int group = warp_of_thread(); group * kWarp < index_.tiles; group += warps) {
      const int tile = group * kWarp + lane_of_thread();
      const uint128_t weight = weight_of(tile);
      if (tile < index_.tiles) visit(tile, weight);
      const uint128_t of_group = reduce_warp(weight, Add{});
      if (lane_of_thread() == 0) groups.weights[group] = of_group;
    }
  }

  /// Returns the token that a random word selects, on all lanes of a warp.
  __device__ DrawnToken draw(const TileGroups& groups, std::uint64_t word) const {
    constexpr int kALane = kMaxGroups / kWarp;
    uint128_t mine[kALane];
    uint128_t of_lane = 0;
#pragma unroll
    for (int i = 0; i < kALane; ++i) {
      const int group = lane_of_thread() * kALane + i;
      mine[i] = group * kWarp < index_.tiles ? groups.weights[group] : uint128_t{0};
      of_lane += mine[i];
    }
    const uint128_t upto = warp_inclusive_sum(of_lane);
    const uint128_t total = value_of_lane(upto, kWarp - 1);
    uint128_t target = multiply_high(word, total);
    const int lane = first_above(upto, target);
    uint128_t before = upto - of_lane;
    int group = lane_of_thread() * kALane;
    bool passed = false;
#pragma unroll
    for (int i = 0; i < kALane - 1; ++i) {
      passed = passed || before + mine[i] > target;
      before += passed ? uint128_t{0} : mine[i];
      group += passed ? 0 : 1;
    }
    target -= value_of_lane(before, lane);
    const TokenValue drawn = draw_in_group(__shfl_sync(kAllLanes, group, lane), target);
    return {drawn.token, drawn.value, total};
  }

  /// Returns the token that a random word selects, on all lanes of one warp, and -1 to all other
  /// warps. All threads of a block must call this function with the same word. `scratch` is in
  /// shared memory. Precondition: at least one tile has a weight.
  __device__ __forceinline__ DrawnToken draw_by_block(BlockScratch<uint128_t>& scratch,
                                                      std::uint64_t word) const {
    const int threads = static_cast<int>(blockDim.x);
    int share = 1;  // number of tiles per thread; for most rows 1, so that the loops are skipped
#pragma unroll 1
    while (share * threads < index_.tiles) ++share;
    const int begin = static_cast<int>(threadIdx.x) * share;
    uint128_t mine = weight_of(begin);
#pragma unroll 1
    for (int i = 1; i < share; ++i) mine += weight_of(begin + i);
    const BlockPrefix<uint128_t> prefix = block_prefix(mine, scratch.of_warp);
    const uint128_t position = multiply_high(word, prefix.total);
    const bool is_drawn = prefix.before <= position && position - prefix.before < mine;
    const unsigned lanes = __ballot_sync(kAllLanes, is_drawn);
    if (lanes == 0) return {-1, 0.0F, prefix.total};
    const int lane = __ffs(static_cast<int>(lanes)) - 1;
    uint128_t within = value_of_lane(position - prefix.before, lane);
    int tile = __shfl_sync(kAllLanes, begin, lane);
#pragma unroll 1
    for (const int last = tile + share - 1; tile < last; ++tile) {
      const uint128_t weight = weight_of(tile);
      if (within < weight) break;
      within -= weight;
    }
    const TokenValue token = draw_in_tile(tile, within_tile(within, tile));
    return {token.token, token.value, prefix.total};
  }

  /// Returns, on all lanes of a warp, the first id whose value has the row's largest key.
  __device__ std::int32_t first_largest() const {
    int tile = INT_MAX;
#pragma unroll 4
    for (int other = lane_of_thread(); other < index_.tiles; other += kWarp) {
      if (index_.keys[other] == largest_) tile = min(tile, other);
    }
    tile = __reduce_min_sync(kAllLanes, tile);
    float x[kLaneValues];
    row_.read_in_order(tile, x);
    int place = kLaneValues;
#pragma unroll
    for (int i = kLaneValues - 1; i >= 0; --i) place = order_key(x[i]) == largest_ ? i : place;
    const unsigned lanes = __ballot_sync(kAllLanes, place < kLaneValues);
    const int lane = __ffs(static_cast<int>(lanes)) - 1;
    return tile * kTileSize + lane * kLaneValues + __shfl_sync(kAllLanes, place, lane);
  }

 private:
  struct TokenValue {
    std::int32_t token;
    float value;
  };

  /// Returns the left shift of a tile's weights into the row's unit, or -1 if the tile weighs
  /// nothing.
  __device__ __forceinline__ int shift_of(int tile) const {
    return octave_.shift_of(index_.keys[tile]);
  }
  __device__ __forceinline__ uint128_t weight_of(int tile) const {
    if (tile >= index_.tiles || !keep_.takes(index_.keys[tile])) return 0;
    return shifted_to_row(index_.sums[tile], shift_of(tile));
  }

  __device__ TokenValue draw_in_group(int group, uint128_t target) const {
    const int tile = group * kWarp + lane_of_thread();
    const uint128_t weight = weight_of(tile);
    const uint128_t upto = warp_inclusive_sum(weight);
    const int lane = first_above(upto, target);
    const int drawn = group * kWarp + lane;
    const uint128_t within = value_of_lane(target - (upto - weight), lane);
    return draw_in_tile(drawn, within_tile(within, drawn));
  }

  /// Converts a position in a tile from the row's unit to the tile's unit. The result fits into 64
  /// bits, because it is below the tile's sum.
  __device__ __forceinline__ std::uint64_t within_tile(uint128_t within, int tile) const {
    const auto by = static_cast<std::uint32_t>(shift_of(tile));
    const auto low = static_cast<std::uint64_t>(within);
    const auto high = static_cast<std::uint64_t>(within >> 64);
    return by == 0 ? low : (low >> by) | (high << (64U - by));
  }

  __device__ TokenValue draw_in_tile(int tile, std::uint64_t target) const {
    float x[kLaneValues];
    row_.read_in_order(tile, x);
    std::uint64_t weights[kLaneValues];
    weigh(tile, x, weights);
    const std::int32_t token = token_in_tile(tile, weights, target);
    const int place = token % kLaneValues;
    float value = x[0];
#pragma unroll
    for (int i = 1; i < kLaneValues; ++i) value = place == i ? x[i] : value;
    return {token, __shfl_sync(kAllLanes, value, token % kTileSize / kLaneValues)};
  }

  __device__ void weigh(int tile, const float (&x)[kLaneValues],
                        std::uint64_t (&weights)[kLaneValues]) const {
    const TileWeights<kFromProbs> rule(from_order_key(index_.keys[tile]), rule_);
    if (rule.are_quick()) {
#pragma unroll
      for (int i = 0; i < kLaneValues; ++i) weights[i] = rule.weigh(x[i]);
    } else {
      const LaneWeights all = weigh_slowly(rule, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]);
#pragma unroll
      for (int i = 0; i < kLaneValues; ++i) weights[i] = all.of[i];
    }
    const int first = tile * kTileSize + lane_of_thread() * kLaneValues;
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      weights[i] = keep_.keeps(x[i], first + i) ? weights[i] : 0;
    }
  }
  /// Weights of a lane's values, computed by code that is out of line because it is rarely
  /// executed.
  struct LaneWeights {
    std::uint64_t of[kLaneValues];
  };
  __device__ __noinline__ static LaneWeights weigh_slowly(TileWeights<kFromProbs> rule, float x0,
                                                          float x1, float x2, float x3, float x4,
                                                          float x5, float x6, float x7) {
    return {{rule.weigh_slowly(x0), rule.weigh_slowly(x1), rule.weigh_slowly(x2),
             rule.weigh_slowly(x3), rule.weigh_slowly(x4), rule.weigh_slowly(x5),
             rule.weigh_slowly(x6), rule.weigh_slowly(x7)}};
  }

  const Row& row_;
  RowIndex index_;
  TileWeighing rule_;
  Keep keep_;
  std::int32_t largest_;
  RowOctave<kFromProbs> octave_;
};

}  // namespace fairdraw::cuda
