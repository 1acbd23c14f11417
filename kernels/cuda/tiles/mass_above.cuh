// Sums the mass above a few values of a row, by all the row's blocks, to decide whether proposals
// are accepted.
//
// Contract. Each block has the keys of its own tiles and the same order (PassOrder), whose pivots
// are ascending. All warps of all blocks of the row take part. Postcondition: the first block has,
// for each block, the weight of the block's tokens above each pivot, in the row's unit, as floats
// or as integers. The index and other blocks' rings are not changed.
//
// Algorithm and cost. A warp reads those of its tiles whose largest value is above the smallest
// pivot; its last tiles come from its ring if they are still there from the first pass. With float
// sums a value takes 2 instructions and 2 per pivot, with integer sums 13 and 3. A single pivot has
// code of its own, because most rows have one. In integer sums, lane i keeps the sum above pivot i.
// Tiles for which float arithmetic is not exact are weighed afterwards by a called function,
// because a loop that contains calls has fewer registers.
//
// Numerics: common/tile_weights.h. The relative error of a float sum is at most kRoughError: a lane
// has at most 2^12 values (kMaxVocab by kLeastThreadsOfBlock threads), so its additions round by
// 2^-12; the other additions, the exponential, its argument and the cuts of the definition add
// 2^-17. Determinism: integers decide wherever the float sums are not accurate enough.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "common/wide_integers.h"
#include "cuda/tiles/brackets/bracket_pass.cuh"
#include "cuda/tiles/row_weigher.cuh"
#include "cuda/tiles/tile_draw.cuh"

namespace fairdraw::cuda {

/// Proposed token, with a bound of the mass above it from the index.
struct Proposal {
  std::int32_t token;
  std::int32_t key;
  float above;  ///< upper bound of the weight of all larger values, in 2^64 of the row's unit
};

/// Shared memory of a row that draws by proposals. It replaces the keys of groups, and the tiles'
/// masses follow it.
struct ProposalMemory {
  static constexpr int kPivots = 4;
  static constexpr int kMostWarps = kMaxThreadsOfBlock / kWarp;

  struct Order {
    std::int32_t pivots[kPivots];  ///< keys of the pivots, in ascending order
    int count;
    std::int32_t largest;  ///< the row's largest key
    bool in_ring;          ///< whether the rings still contain tiles of the first pass
    bool exact;  ///< whether sums are integers; otherwise they are floats, of logits for which
                 ///< float weights are exact enough
  };

  /// A value that may become a threshold, and the octave of one of the largest values.
  struct Hint {
    float value, octave;
  };

  LargestOfWarps largest;  ///< first member, at the same place as in rows without filters
  uint128_t of_warp[kMostWarps][kPivots];        ///< masses above the pivots of this block's warps
  uint128_t of_block[kMaxBlocksOfRow][kPivots];  ///< masses above the pivots of all blocks, in the
                                                 ///< first block
  float rough_of_warp[kMostWarps][kPivots];      ///< like of_warp, as floats
  float rough_of_block[kMaxBlocksOfRow][kPivots];  ///< like of_block, as floats, in 2^kRoughUnit of
                                                   ///< the row's unit
  Hint hints[kMostWarps];        ///< hint that each warp suggests, in rows of one block
  float above_hint[kMostWarps];  ///< mass above the hint of each warp's tiles; NaN: unknown
  Order order;
  TileGroups groups;
  Proposal proposals[kMostWarps];
  uint128_t target;       ///< target mass of the nucleus; 0: not known yet
  std::int32_t accepted;  ///< smallest key known to be accepted, with all larger keys
  std::int32_t rejected;  ///< largest key known to be rejected, with all smaller keys
  bool exact;             ///< whether the next pass sums integers instead of floats
  std::int32_t outcome;   ///< drawn token, or RowProposals::kNextTurn or kPass

  /// Returns the array of each tile's mass, rounded up, in 2^64 of the row's unit.
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

/// Part of the integer sums that one block computes.
template <RowForm kForm, bool kFromProbs>
class MassAbove {
  using Row = TileRow<kForm>;
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

  /// Sums the masses above the pivots; called by all threads of the block.
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
  /// Sums the tiles for which float arithmetic is exact. Returns whether other tiles remain.
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

  /// Adds the sums of a tile, of which each lane has a part, to the sums above the pivots.
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
  TileRule rule_;
  RowWeigher<kFromProbs> weigher_;
  uint128_t mine_ = 0;  ///< in lane i: the mass above pivot i
};

/// Number of octaves of a float sum's unit, in which a value in the octave of the row's largest
/// value is about 1.
inline constexpr int kRoughUnit = 23 + kTileBits + kRowBits;
inline constexpr float kRoughError = 0x1p-11F;

/// Returns 2^x with a relative error of at most 2^-22.
__device__ __forceinline__ float rough_exp2(float x) {
  float power = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

/// Part of the float sums that one block computes, for rows of logits.
template <RowForm kForm>
class RoughMassAbove {
  static constexpr int kPivots = ProposalMemory::kPivots;

 public:
  __device__ __forceinline__ RoughMassAbove(const TileRow<kForm>& row, const TileRing<kForm>& ring,
                                            const RowBlocks& blocks, ProposalMemory& memory,
                                            float scale)
      : row_(row),
        ring_(ring),
        blocks_(blocks),
        memory_(memory),
        scale_(scale),
        octave_(float_octave_origin(from_order_key(memory.order.largest), scale) - kOctaveOrigin) {}

  /// Sums the masses above the pivots; called by all threads of the block.
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

  const TileRow<kForm>& row_;
  const TileRing<kForm>& ring_;
  const RowBlocks& blocks_;
  ProposalMemory& memory_;
  float scale_, octave_;
};

}  // namespace fairdraw::cuda
