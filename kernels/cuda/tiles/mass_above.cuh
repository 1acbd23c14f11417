// Sums the mass above a few values of a row, called pivots, with all blocks of the row, to decide
// whether proposals are accepted.
//
// Contract. Each block has the keys of its own tiles and the same order for the pass (PassOrder),
// whose pivots are in ascending order. All warps of all blocks of the row take part. Postcondition:
// for each block of the row, the first block has the weight of the block's tokens above each pivot,
// in the row's unit, as floats or as integers. The row's index and the ring buffers of other blocks
// do not change.
//
// Algorithm and cost. A warp reads the tiles whose largest value is above the smallest pivot. The
// last of these tiles come from the warp's ring buffer if they are still there from the first pass.
// With float sums, each value takes 2 instructions, and 2 more per pivot; with integer sums, each
// value takes 13, and 3 more per pivot. A pass with a single pivot has code of its own, because
// most rows need one pivot. In integer sums, lane i of a warp keeps the sum above pivot i. Tiles
// for which float arithmetic is not exact are weighed afterwards by a called function, because a
// loop that contains calls has fewer registers.
//
// Numerics: the weights are defined in common/tile_weights.h. The relative error of a float sum is
// at most kRoughError. A lane adds at most 2^12 values (kMaxVocab by kMinThreadsOfBlock threads),
// so these additions contribute at most 2^-12 to the error. The other additions, the exponential,
// its argument and the truncation in the definition of weights contribute 2^-17. Determinism:
// integers decide in all cases in which the float sums are not accurate enough.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "common/wide_integers.h"
#include "cuda/tiles/row_weigher.cuh"
#include "cuda/tiles/threshold_pass.cuh"
#include "cuda/tiles/tile_draw.cuh"

namespace fairdraw::cuda {

/// Proposed token, with an upper bound of the mass above the token, found from the index.
struct Proposal {
  std::int32_t token;
  std::int32_t key;
  float above;  ///< upper bound of the weight of all larger values, in units of 2^64 times the
                ///< row's unit
};

/// Shared memory of a row that draws by proposals. The memory replaces the keys of groups, and is
/// followed by the masses of the tiles.
struct ProposalMemory {
  static constexpr int kPivots = 4;
  static constexpr int kMaxBlockWarps = kMaxThreadsOfBlock / kWarp;

  struct Order {
    std::int32_t pivots[kPivots];  ///< keys of the pivots, in ascending order
    int count;
    std::int32_t largest;  ///< largest key of the row
    bool in_ring;          ///< whether the ring buffers still contain tiles of the first pass
    bool exact;  ///< whether sums are integers; otherwise the sums are floats, for logits whose
                 ///< float weights are accurate enough
  };

  /// Value that may become a threshold, with the octave of one of the largest values.
  struct Hint {
    float value, octave;
  };

  uint128_t of_warp[kMaxBlockWarps][kPivots];    ///< for each warp of this block, the masses above
                                                 ///< the pivots
  uint128_t of_block[kMaxBlocksOfRow][kPivots];  ///< for each block of the row, the masses above
                                                 ///< the pivots; used in the first block only
  float rough_of_warp[kMaxBlockWarps][kPivots];  ///< the masses of of_warp as floats
  float rough_of_block[kMaxBlocksOfRow][kPivots];  ///< the masses of of_block as floats, in units
                                                   ///< of 2^kRoughUnit times the row's unit
  Hint hints[kMaxBlockWarps];  ///< for each warp, the hint that the warp suggests, in rows of a
                               ///< single block
  float above_hint[kMaxBlockWarps];  ///< for each warp, the mass of its tiles above the hint; NaN
                                     ///< if unknown
  Order order;
  TileGroups groups;
  Proposal proposals[kMaxBlockWarps];
  uint128_t target;       ///< target mass of the nucleus; 0 if not known yet
  std::int32_t accepted;  ///< smallest key known to be accepted; all larger keys are accepted, too
  std::int32_t rejected;  ///< largest key known to be rejected; all smaller keys are rejected, too
  bool exact;             ///< whether the next pass sums integers instead of floats
  std::int32_t outcome;   ///< drawn token, or one of RowProposals::kNextTurn and
                          ///< RowProposals::kPass

  /// Returns the array of the tiles' masses, rounded up, in units of 2^64 times the row's unit.
  __device__ float* masses() const {
    return reinterpret_cast<float*>(const_cast<ProposalMemory*>(this) + 1);  // NOLINT
  }
  __host__ __device__ static constexpr int bytes(std::int64_t tiles) {
    constexpr int kAlign = 16;
    const int all = static_cast<int>(sizeof(ProposalMemory)) +
                    static_cast<int>(tiles) * static_cast<int>(sizeof(float));
    return (all + kAlign - 1) / kAlign * kAlign;
  }
};

/// Part of the integer sums that a single block computes.
template <RowForm kForm, bool kFromProbs>
class MassAbove {
  using Row = RowOfTiles<kForm>;
  using Pass = TilePass<kForm, kFromProbs>;
  static constexpr int kPivots = ProposalMemory::kPivots;
  static constexpr float kEmpty = kFromProbs ? 0.0F : -INFINITY;

 public:
  __device__ __forceinline__ MassAbove(const Row& row, const TileRing<kForm>& ring,
                                       const RowBlocks& blocks, ProposalMemory& memory, float scale)
      : row_(row),
        ring_(ring),
        blocks_(blocks),
        memory_(memory),
        rule_{scale, true},
        weigher_(rule_, memory.order.largest) {}

  /// Sums the masses above the pivots; all threads of the block must call this function.
  __device__ __forceinline__ void run() {
    const std::int32_t lowest = memory_.order.pivots[0];
    const auto reaches = [&](int tile) { return blocks_.kept_key(tile) > lowest; };
    bool left = false;
    if (memory_.order.count == 1) {
      left = sum<1>(reaches);
    } else {
      left = sum<kPivots>(reaches);
    }
    if (left) add_slowly(reaches);
    if (lane_of_thread() < kPivots) memory_.of_warp[warp_of_thread()][lane_of_thread()] = mine_;
    sync_block();
    if (static_cast<int>(threadIdx.x) >= kPivots) return;
    uint128_t of_block = 0;
    for (int warp = 0; warp < warps_of_block(); ++warp) {
      of_block += memory_.of_warp[warp][threadIdx.x];
    }
    const RowCluster& cluster = blocks_.cluster();
    *cluster.at(&memory_.of_block[cluster.rank][threadIdx.x], 0) = of_block;
  }

 private:
  /// Sums the values above the pivots in the tiles for which float arithmetic is exact. Returns
  /// whether other tiles remain to be summed.
  template <int kCount, class Reaches>
  __device__ __forceinline__ bool sum(const Reaches& reaches) {
    float pivots[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) pivots[i] = from_order_key(memory_.order.pivots[i]);
    bool left = false;
    revisit_tiles(row_, ring_, blocks_.steps(), memory_.order.in_ring, reaches,
                  [&](int tile, const RawTile& raw) {
                    const std::int32_t key = blocks_.kept_key(tile);
                    const TileWeights<kFromProbs> weights(from_order_key(key), rule_);
                    if (!weights.are_quick()) {
                      left = true;
                      return;
                    }
                    float x[kLaneValues];
                    Pass::read(row_, raw, x);
                    std::uint64_t above[kCount] = {};
#pragma unroll
                    for (const float value : x) {
                      const std::uint64_t weight = weights.weigh(value);
#pragma unroll
                      for (int i = 0; i < kCount; ++i) above[i] += value > pivots[i] ? weight : 0;
                    }
                    add<kCount>(key, above);
                  });
    return left;
  }

  /// Adds the sums of a tile to the sums above the pivots; each lane has a part of the tile's sums.
  template <int kCount>
  __device__ __forceinline__ void add(std::int32_t key, const std::uint64_t (&above)[kCount]) {
    std::uint64_t of_pivot = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const std::uint64_t sum = warp_sum_of_tile(above[i]);
      of_pivot = lane_of_thread() == i ? sum : of_pivot;
    }
    mine_ += row_weight(of_pivot, weigher_.shift_of(key));
  }

  template <class Reaches>
  __device__ __forceinline__ void add_slowly(const Reaches& reaches) {
    const TileSteps steps = blocks_.steps();
#pragma unroll 1
    for (int tile = steps.first; tile < steps.end; tile += steps.step) {
      const std::int32_t key = blocks_.kept_key(tile);
      if (!reaches(tile)) continue;
      const TileWeights<kFromProbs> weights(from_order_key(key), rule_);
      if (weights.are_quick()) continue;
      RawTile raw;
      load_again(row_, tile, raw);
      float x[kLaneValues];
      Pass::read(row_, raw, x);
#pragma unroll 1
      for (int i = 0; i < kPivots; ++i) {
        const float pivot = from_order_key(memory_.order.pivots[i]);
        float kept[kLaneValues];
#pragma unroll
        for (int v = 0; v < kLaneValues; ++v) kept[v] = x[v] > pivot ? x[v] : kEmpty;
        const std::uint64_t sum = Pass::sum(kept, key, rule_);
        if (lane_of_thread() == i) mine_ += row_weight(sum, weigher_.shift_of(key));
      }
    }
  }

  const Row& row_;
  const TileRing<kForm>& ring_;
  const RowBlocks& blocks_;
  ProposalMemory& memory_;
  TileWeighing rule_;
  RowWeigher<kFromProbs> weigher_;
  uint128_t mine_ = 0;  ///< on lane i, the mass above pivot i
};

/// Base-2 logarithm of a float sum's unit in the row's unit; in this unit, a value in the octave of
/// the row's largest value weighs about 1.
inline constexpr int kRoughUnit = 23 + kTileBits + kRowBits;
inline constexpr float kRoughError = 0x1p-11F;

/// Returns 2^x with a relative error of at most 2^-22.
__device__ __forceinline__ float rough_exp2(float x) {
  float power = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

/// Part of the float sums that a single block computes, for rows of logits.
template <RowForm kForm>
class RoughMassAbove {
  static constexpr int kPivots = ProposalMemory::kPivots;

 public:
  __device__ __forceinline__ RoughMassAbove(const RowOfTiles<kForm>& row,
                                            const TileRing<kForm>& ring, const RowBlocks& blocks,
                                            ProposalMemory& memory, float scale)
      : row_(row),
        ring_(ring),
        blocks_(blocks),
        memory_(memory),
        scale_(scale),
        octave_(float_octave_origin(from_order_key(memory.order.largest), scale) - kOctaveOrigin) {}

  /// Sums the masses above the pivots; all threads of the block must call this function.
  __device__ __forceinline__ void run() const {
    if (memory_.order.count == 1) {
      sum<1>();
    } else {
      sum<kPivots>();
    }
    sync_block();
    if (static_cast<int>(threadIdx.x) >= kPivots) return;
    float of_block = 0;
#pragma unroll 4
    for (int warp = 0; warp < warps_of_block(); ++warp) {
      of_block += memory_.rough_of_warp[warp][threadIdx.x];
    }
    const RowCluster& cluster = blocks_.cluster();
    *cluster.at(&memory_.rough_of_block[cluster.rank][threadIdx.x], 0) = of_block;
  }

 private:
  template <int kCount>
  __device__ __forceinline__ void sum() const {
    float pivots[kCount];
    float sums[kCount] = {};
#pragma unroll
    for (int i = 0; i < kCount; ++i) pivots[i] = from_order_key(memory_.order.pivots[i]);
    const std::int32_t lowest = memory_.order.pivots[0];
    revisit_tiles(
        row_, ring_, blocks_.steps(), memory_.order.in_ring,
        [&](int tile) { return blocks_.kept_key(tile) > lowest; },
        [&](int, const RawTile& raw) {
          float x[kLaneValues];
          TilePass<kForm, false>::read(row_, raw, x);
#pragma unroll
          for (const float value : x) {
            const float weight = rough_exp2(__fmaf_rn(value, scale_, -octave_));
#pragma unroll
            for (int i = 0; i < kCount; ++i) sums[i] += value > pivots[i] ? weight : 0.0F;
          }
        });
#pragma unroll
    for (float& of_pivot : sums) of_pivot = reduce_warp(of_pivot, Add{});
    if (lane_of_thread() != 0) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) memory_.rough_of_warp[warp_of_thread()][i] = sums[i];
  }

  const RowOfTiles<kForm>& row_;
  const TileRing<kForm>& ring_;
  const RowBlocks& blocks_;
  ProposalMemory& memory_;
  float scale_, octave_;
};

}  // namespace fairdraw::cuda
