// Sums the mass above a few values of a row, called pivots, with all blocks of the row, to decide
// whether proposals are accepted.
//
// Contract. Each block has the keys of its own tiles and the same order for the pass (PassOrder),
// whose pivots are in ascending order. All warps of all blocks of the row take part. Postcondition:
// for each block of the row, the first block has the weight of the block's tokens above each pivot,
// as a float. The row's index and the ring buffers of other blocks do not change. Precondition: the
// row has probabilities, or logits for which float arithmetic is exact (float_octaves_are_exact).
//
// Algorithm and cost. A warp reads the tiles whose largest value is above the smallest pivot. The
// last of these tiles come from the warp's ring buffer if they are still there from the first pass.
// Each value takes 2 instructions, and 2 more per pivot. A pass with a single pivot has code of its
// own, because most rows need one pivot.
//
// Numerics: the weights are defined in common/tile_weights.h. The relative error of a sum is at
// most rough_error(). Determinism: if the sums are not accurate enough to decide, the row's
// threshold decides (row_proposals.cuh).
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
  };

  /// Value that may become a threshold, with the octave of one of the largest values.
  struct Hint {
    float value, octave;
  };

  float of_warp[kMaxBlockWarps]
               [kPivots];  ///< for each warp of this block, the masses above the
                           ///< pivots, in units of 2^kRoughUnit times the row's unit
  float of_block[kMaxBlocksOfRow][kPivots];  ///< for each block of the row, the sums of of_warp;
                                             ///< used in the first block only
  Hint hints[kMaxBlockWarps];  ///< for each warp, the hint that the warp suggests, in rows of a
                               ///< single block
  float above_hint[kMaxBlockWarps];  ///< for each warp, the mass of its tiles above the hint; NaN
                                     ///< if unknown
  Order order;
  TileGroups groups;
  Proposal proposals[kMaxBlockWarps];
  float target_low, target_high;  ///< bounds of the target mass of the nucleus, in units of
                                  ///< 2^kRoughUnit times the row's unit; 0 if not known yet
  std::int32_t accepted;  ///< smallest key known to be accepted; all larger keys are accepted, too
  std::int32_t rejected;  ///< largest key known to be rejected; all smaller keys are rejected, too
  bool is_open;           ///< whether the sums of the last pass did not decide about all pivots
  bool has_passed;        ///< whether a pass was ordered
  std::int32_t outcome;   ///< drawn token, or one of the outcomes of RowProposals

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

/// Base-2 logarithm of a float sum's unit in the row's unit; in this unit, a value in the octave of
/// the row's largest value weighs about 1.
inline constexpr int kRoughUnit = 23 + kTileBits + kRowBits;

/// Returns an upper bound of the relative error of a float sum over a row, to which each lane adds
/// the values of at most `tiles` tiles. Each addition of a lane contributes 2^-24. The other
/// additions, the exponential, its argument and the truncation in the definition of weights
/// together contribute less than 2^-17.
__device__ __forceinline__ float rough_error(int tiles) {
  return static_cast<float>(tiles * kLaneValues) * 0x1p-24F + 0x1p-16F;
}

/// Returns 2^x with a relative error of at most 2^-22.
__device__ __forceinline__ float rough_exp2(float x) {
  float power = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

/// Weights of values in units of 2^kRoughUnit times the row's unit.
template <bool kFromProbs>
struct RoughWeight {
  float factor, octave;

  /// `largest` is the largest key of the row.
  __device__ __forceinline__ RoughWeight(std::int32_t largest, float scale) {
    if constexpr (kFromProbs) {
      // The factor makes the octave of the row's largest value the octave from 1 to 2.
      constexpr std::uint32_t kOne = 127;  // exponent of 1 in a float32
      const std::uint32_t exponent = max(static_cast<std::uint32_t>(largest) >> 23, 1U);
      factor = exponent < 2 * kOne ? __uint_as_float((2 * kOne - exponent) << 23) : 0x1p-127F;
      octave = 0;
    } else {
      factor = scale;
      octave = float_octave_origin(from_order_key(largest), scale) - kOctaveOrigin;
    }
  }
  __device__ __forceinline__ float operator()(float x) const {
    if constexpr (kFromProbs) return x * factor;
    return rough_exp2(__fmaf_rn(x, factor, -octave));
  }
};

/// Part of the sums that a single block computes.
template <RowForm kForm, bool kFromProbs>
class MassAbove {
  static constexpr int kPivots = ProposalMemory::kPivots;

 public:
  __device__ __forceinline__ MassAbove(const RowOfTiles<kForm>& row, const TileRing<kForm>& ring,
                                       const RowBlocks& blocks, ProposalMemory& memory, float scale)
      : row_(row),
        ring_(ring),
        blocks_(blocks),
        memory_(memory),
        weigh_(memory.order.largest, scale) {}

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
      of_block += memory_.of_warp[warp][threadIdx.x];
    }
    const RowCluster& cluster = blocks_.cluster();
    *cluster.at(&memory_.of_block[cluster.rank][threadIdx.x], 0) = of_block;
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
          TilePass<kForm, kFromProbs>::read(row_, raw, x);
#pragma unroll
          for (const float value : x) {
            const float weight = weigh_(value);
#pragma unroll
            for (int i = 0; i < kCount; ++i) sums[i] += value > pivots[i] ? weight : 0.0F;
          }
        });
#pragma unroll
    for (float& of_pivot : sums) of_pivot = reduce_warp(of_pivot, Add{});
    if (lane_of_thread() != 0) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) memory_.of_warp[warp_of_thread()][i] = sums[i];
  }

  const RowOfTiles<kForm>& row_;
  const TileRing<kForm>& ring_;
  const RowBlocks& blocks_;
  ProposalMemory& memory_;
  RoughWeight<kFromProbs> weigh_;
};

}  // namespace fairdraw::cuda
