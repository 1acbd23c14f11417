// What each phase of a row with top_p alone knows of the row and of its block's part.
#pragma once

#include <cstdint>

#include "cuda/tiles/shared_row.cuh"
#include "cuda/tiles/value_bins.cuh"

namespace fairdraw::cuda {

/// A mass in the unit of TileWeights beside the row's largest value: one of a row's unit, which is
/// at least 2^102.
__device__ __forceinline__ float float_of_mass(uint128_t mass) {
  static_assert(kRowBits == 48);
  constexpr int kShift = 60;
  return static_cast<float>(static_cast<std::uint64_t>(mass >> kShift)) * 0x1p12F;
}

template <RowForm kForm, bool kFromProbs>
class NucleusPart {
 protected:
  using Row = TileRow<kForm>;
  using Ring = TileRing<kForm>;
  using Pass = TilePass<kForm, kFromProbs>;
  using Weights = TileWeights<kFromProbs>;
  static constexpr float kEmpty = kFromProbs ? 0.0F : -INFINITY;

  __device__ __forceinline__ NucleusPart(const SharedRow& place, const TileRule& rule)
      : place_(place),
        row_(place.task.rows, place.task.allowed, place.number(), kFromProbs, place.task.edits),
        ring_(place.dynamic),
        blocks_(place.blocks<kForm>(row_.tiles())),
        memory_(*place.nucleus<kForm>()),
        rule_(rule) {}

  /// Whether the rings of all warps hold all of the row.
  __device__ bool has_all_in_ring() const {
    return row_.tiles() <= blocks_.warps() * Ring::kStages;
  }
  /// Entries of each block.
  __device__ int share_of_block() const { return place_.nucleus_capacity() >> place_.blocks_log2; }
  /// Entries of all blocks together when the first one, which has the most tiles, has no room left:
  /// if what is listed lies evenly.
  __device__ float even_capacity() const {
    const int of_block = warps_of_block();
    const int warps = blocks_.warps();
    const int tiles = row_.tiles();
    const int of_first = tiles / warps * of_block + min(tiles % warps, of_block);
    return rough_quotient(static_cast<float>(share_of_block() * tiles),
                          static_cast<float>(of_first));
  }
  /// x[i] by selections: an array with an index that is not known would not be in registers.
  __device__ __forceinline__ static float value_of(const float (&x)[kLaneValues], int i) {
    static_assert(kLaneValues == 8);
    const auto either = [](int bit, float a, float b) { return bit != 0 ? b : a; };
    const float first = either(i & 2, either(i & 1, x[0], x[1]), either(i & 1, x[2], x[3]));
    const float second = either(i & 2, either(i & 1, x[4], x[5]), either(i & 1, x[6], x[7]));
    return either(i & 4, first, second);
  }

  /// A block's part of the list.
  struct BlockList {
    NucleusMemory::Entry* entries;  ///< in the first block; of a small nucleus in this one
    int room;
  };
  __device__ __forceinline__ BlockList list_of_block() const {
    const int share = share_of_block();
    return {blocks_.cluster().at(memory_.list() + blocks_.cluster().rank * share, 0), share};
  }
  /// By a warp: lists those of a tile's values whose bits are set, if there is room. A value of
  /// each lane at a time: few have two.
  __device__ __forceinline__ void append(const BlockList& list, int tile,
                                         const float (&x)[kLaneValues], unsigned inside) const {
#pragma unroll 1
    for (unsigned lanes = __ballot_sync(kAllLanes, inside != 0); lanes != 0;
         lanes = __ballot_sync(kAllLanes, inside != 0)) {
      int place = 0;
      if (lane_of_thread() == 0) {
        place = static_cast<int>(atomicAdd(&memory_.listed, static_cast<unsigned>(__popc(lanes))));
      }
      place = __shfl_sync(kAllLanes, place, 0) + __popc(lanes & lanes_below());
      const int i = __ffs(static_cast<int>(inside)) - 1;
      if (inside != 0 && place < list.room) {
        list.entries[place] = {order_key(value_of(x, i)), Row::id_of(tile, i)};
      }
      inside &= inside - 1;
    }
  }

  /// Calls visit(tile, raw) for those of this warp's tiles that are wanted(tile). Those in the ring
  /// are there still.
  template <class Wanted, class Visit>
  __device__ __forceinline__ void visit_again(const TileSteps& steps, const Wanted& wanted,
                                              const Visit& visit) const {
    if constexpr (kForm.access == TileAccess::values) {
      visit_by_values(row_, steps, wanted, [] {}, visit);
    } else if (has_all_in_ring()) {
      auto stage = Ring::first_stage();
#pragma unroll 1
      for (int tile = steps.first; tile < steps.end; tile += steps.step, stage = stage.next()) {
        if (!wanted(tile)) continue;
        RawTile raw;
        ring_.read(row_, stage, tile, raw);
        visit(tile, raw);
      }
    } else {
      visit_by_vectors(row_, ring_, steps, wanted, [] {}, visit);
    }
  }

  /// The unit of weights from a key up, and the target in it, to the memory of this block; false
  /// where there is none (nucleus_guess.cuh). Mass and target are there. To be read after a
  /// barrier.
  __device__ __forceinline__ bool set_unit(std::int32_t low) const {
    const float lowest = from_order_key(low);
    const Weights weights(from_order_key(memory_.largest_key), rule_);
    const std::uint32_t below = weights.octaves_below(lowest);
    if (below > kTileBits) return false;
    // Tiles that reach the bracket lie between its lowest value and the largest one.
    if (!Weights(lowest, rule_).are_quick()) return false;
    const int drop = static_cast<int>(kTileBits - below);
    const int unit = kRowBits + drop;
    // Two shifts: one by 143 would be too far.
    if (static_cast<std::uint64_t>((memory_.mass >> unit) >> 63) != 0) return false;
    if (threadIdx.x == 0) {
      memory_.drop = drop;
      memory_.target =
          static_cast<std::uint64_t>((memory_.row_target + ((uint128_t{1} << unit) - 1)) >> unit);
    }
    return true;
  }

  __device__ static unsigned lanes_below() { return (1U << lane_of_thread()) - 1; }

  SharedRow place_;
  Row row_;
  Ring ring_;
  RowBlocks blocks_;
  NucleusMemory& memory_;
  TileRule rule_;
};

}  // namespace fairdraw::cuda
