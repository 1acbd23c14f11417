// What a row with top_p alone has to reach, and whether few of its tokens do: as most rows of a
// trained model.
//
// Contract. All blocks have the row's whole index; all threads of all blocks take part, and agree.
// Mass and target to the memory of each block; for a small nucleus a bound that all of it reaches,
// and the unit (nucleus_guess.cuh).
//
// Algorithm and cost. The mass is the sums of the tiles, in 128 bits. The bound: a tile with the
// largest value M and the sum S, in which the others are below b <= M, holds at least max(w(M), S -
// 255 w(b)) from b on. So the index alone says how much reaches b at least. Of 15 values b, 1.25
// octaves apart, the first for which that is the target is found by four halvings, a barrier each,
// and is the bound, unless so many tiles reach it that the list would be long. No value is counted
// for it, and no sample can miss. Of 48 rows of a trained model, at temperature 1, 0.7 and 0.6, 23,
// 38 and 42 have a bound at top_p 0.9 that at most 1024 tokens reach; 17, 36, 40 at 0.95; 12, 27,
// 36 at 0.99. A row that has none loses 1.5 us.
//
// Numerics: the bound is made by floats and decides nothing: the list's mass is compared with the
// target. Determinism: what a tile has is a float that is rounded down to whole units, so that sums
// are the same in any order, and in every block.
#pragma once

#include <climits>
#include <cstdint>
#include <numbers>

#include "common/wide_integers.h"
#include "cuda/tiles/nucleus_part.cuh"
#include "cuda/tiles/tile_search.cuh"

namespace fairdraw::cuda {

/// What the index says of a nucleus.
enum class NucleusSize : std::int32_t {
  unknown,  ///< other ways have to do
  small,    ///< there is a bound
  large,
};

template <RowForm kForm, bool kFromProbs>
class NucleusTarget : NucleusPart<kForm, kFromProbs> {
  using Part = NucleusPart<kForm, kFromProbs>;
  using Part::blocks_;
  using Part::memory_;
  using Part::place_;
  using Part::rule_;
  using typename Part::Ring;
  using typename Part::Weights;
  static constexpr int kSteps = 15;  ///< values that are tried, found by four halvings
  static constexpr float kOctavesOfStep = 1.25F;
  static constexpr int kTilesOfThread = 2;      ///< more are a vocabulary that no model has
  static constexpr unsigned kUnits = 1U << 21;  ///< of the target: those of a block fit into a word
  static constexpr int kModelBits = 15;         ///< below the target's: what floats are wrong by
  /// Values that may reach the bound if they lie anywhere in the row: in a trained model's rows,
  /// where they lie close together, up to four times as many do.
  static constexpr float kExpected = 192.0F;
  static constexpr float kMostExpected = 4 * kExpected;

 public:
  __device__ __forceinline__ NucleusTarget(const SharedRow& place, const TileRule& rule)
      : Part(place, rule) {}

  /// By all threads of all blocks.
  __device__ __forceinline__ NucleusSize measure(float top_p) const {
    const auto thread = static_cast<int>(threadIdx.x);
    const std::int32_t largest_key = find_tile_keys(blocks_.index()).largest;
    if (status_of_key(largest_key, place_.task.edits.fault_of(place_.number())) != RowStatus::ok) {
      return NucleusSize::unknown;
    }
    const float largest = from_order_key(largest_key);
    const Weights weights(largest, rule_);
    if (!weights.are_quick()) return NucleusSize::unknown;
    memory_.bins[thread] = make_uint2(0, 0);
    if (thread == 0) {
      for (int& edge : memory_.edges) edge = static_cast<int>(blockDim.x);
      for (NucleusMemory::Reaching& reaching : memory_.reaching) reaching = {0, 0};
    }
    const uint128_t mass = mass_of_row(weights);
    const uint128_t target = nucleus_target(top_p, mass);
    const auto of_largest = static_cast<float>(weights.weigh(largest));
    if (thread == 0) {
      memory_.mass = mass;
      memory_.row_target = target;
      memory_.of_largest = of_largest;
      memory_.largest_key = largest_key;
    }
    if (!place_.task.bounds_nuclei) return NucleusSize::large;
    const std::int32_t bound = find_bound(weights, of_largest, float_of_mass(target));
    if (bound == kNone || !this->set_unit(bound)) return NucleusSize::large;
    if (thread == 0) memory_.bracket = memory_.wide = {bound, largest_key};
    if constexpr (kForm.access == TileAccess::vectors) Ring::await_all();  // of begin_sample
    __syncthreads();
    return NucleusSize::small;
  }

 private:
  static constexpr std::int32_t kNone = INT_MAX;

  /// The bound's key, or kNone. of_largest, target: in the unit of `weights`. A barrier for each
  /// value that is tried.
  __device__ __forceinline__ std::int32_t find_bound(const Weights& weights, float of_largest,
                                                     float target) const {
    const RowIndex index = blocks_.index();
    const auto threads = static_cast<int>(blockDim.x);
    if (kMostExpected * of_largest < target || index.tiles > kTilesOfThread * threads) return kNone;
    float largest[kTilesOfThread];  // of each tile
    float mass[kTilesOfThread];
#pragma unroll
    for (int i = 0; i < kTilesOfThread; ++i) {
      const int tile = static_cast<int>(threadIdx.x) + i * threads;
      const bool there = tile < index.tiles;
      const float x = from_order_key(there ? index.keys[tile] : kEmptyTileKey);
      largest[i] = static_cast<float>(weights.weigh(x));
      // What weighs something is not so far below that a shift could not be.
      mass[i] = largest[i] > 0.0F ? static_cast<float>(index.sums[tile] >> weights.octaves_below(x))
                                  : 0.0F;
    }
    const float units = rough_quotient(static_cast<float>(kUnits), target);
    const auto tiles = static_cast<float>(index.tiles);
    constexpr auto kOctavesOfE = std::numbers::log2e_v<float>;
    const auto most = static_cast<unsigned>(
        tiles * (1.0F - exp2f(rough_quotient(-kExpected * kOctavesOfE, tiles))));
    int low = 0;
    int high = kSteps;
    unsigned of_high = UINT_MAX;  // tiles
#pragma unroll 1
    for (NucleusMemory::Reaching* reaching = memory_.reaching; low < high; ++reaching) {
      const int step = (low + high) / 2;
      const float least = of_largest * exp2f(-octaves_of_step(step));
      unsigned of_thread = 0;
      unsigned reach = 0;
#pragma unroll
      for (int i = 0; i < kTilesOfThread; ++i) {
        constexpr auto kOthers = static_cast<float>(kTileSize - 1);
        const float above = fminf(fmaxf(largest[i], mass[i] - kOthers * least), 2.0F * target);
        of_thread += largest[i] >= least ? static_cast<unsigned>(above * units) : 0;
        reach += largest[i] >= least ? 1 : 0;
      }
      of_thread = __reduce_add_sync(kAllLanes, min(of_thread, 2 * kUnits));
      reach = __reduce_add_sync(kAllLanes, reach);
      if (lane_of_thread() == 0) {
        atomicAdd(&reaching->mass, of_thread);
        atomicAdd(&reaching->tiles, reach);
      }
      __syncthreads();
      if (reaching->mass >= kUnits + (kUnits >> kModelBits)) {
        high = step;
        of_high = reaching->tiles;
      } else {
        if (reaching->tiles > most) return kNone;
        low = step + 1;
      }
    }
    return of_high <= most ? key_of_step(low) : kNone;
  }

  __device__ static float octaves_of_step(int step) {
    return kOctavesOfStep * static_cast<float>(step + 1);
  }
  __device__ __forceinline__ std::int32_t key_of_step(int step) const {
    const float largest = from_order_key(memory_.largest_key);
    if constexpr (kFromProbs) return max(order_key(largest * exp2f(-octaves_of_step(step))), 1);
    return order_key(fmaxf(largest - rough_quotient(octaves_of_step(step), rule_.scale),
                           from_order_key(kEmptyTileKey + 1)));
  }

  /// The row's mass. One barrier.
  __device__ __forceinline__ uint128_t mass_of_row(const Weights& weights) const {
    const RowIndex index = blocks_.index();
    uint128_t mine = 0;
#pragma unroll 1
    for (int tile = static_cast<int>(threadIdx.x); tile < index.tiles;
         tile += static_cast<int>(blockDim.x)) {
      const std::uint32_t gap = weights.octaves_below(from_order_key(index.keys[tile]));
      if (gap <= kRowBits) mine += static_cast<uint128_t>(index.sums[tile]) << (kRowBits - gap);
    }
    // Twice by one piece of code: over the lanes, then over the warps.
#pragma unroll 1
    for (int turn = 0;; ++turn) {
      mine = reduce_warp(mine, Add{});
      if (turn == 1) return mine;
      if (lane_of_thread() == 0) memory_.mass_of_warp[warp_of_thread()] = mine;
      __syncthreads();
      mine = lane_of_thread() < warps_of_block() ? memory_.mass_of_warp[lane_of_thread()] : 0;
    }
  }
};

template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ NucleusSize measure_nucleus(const RowsTask& task, int blocks_log2,
                                                    unsigned char* dynamic, float scale,
                                                    float top_p) {
  return NucleusTarget<kForm, kFromProbs>({task, blocks_log2, dynamic, nullptr}, {scale, true})
      .measure(top_p);
}

}  // namespace fairdraw::cuda
