// A hint: a value of which the first pass finds out whether proposals from it on are accepted.
//
// Of many rows each is one block's, and a pass for proposals is memory's second reading of it. So
// the first pass adds up the mass above one value, by floats: 4 instructions a value. The value is
// guessed: that above which a little less than top_p of each warp's first tile lies, in nine
// halvings, on the average of the block's warps. Where the mass above it is less than the row's
// target, all proposals from it on are accepted; where it is more, all up to it are rejected.
// A guess decides how many rows need a pass, nothing else.
#pragma once

#include <cstdint>

#include "cuda/tiles/mass_above.cuh"
#include "cuda/tiles/shared_row.cuh"

namespace fairdraw::cuda {

/// The value and the octave that a block's warps agree on: the hint's.
__device__ __forceinline__ ProposalMemory::Hint hint_of(const ProposalMemory& memory) {
  const int warps = warps_of_block();
  ProposalMemory::Hint mine{0.0F, -INFINITY};
  if (lane_of_thread() < warps) mine = memory.hints[lane_of_thread()];
  const float value = reduce_warp(mine.value, Add{}) / static_cast<float>(warps);
  return {value, reduce_warp(mine.octave, Maximum{})};
}

/// Finds the hint of a row of logits, by all threads of its one block, each warp of which has a
/// tile. Begins to read the warp's first tile again: it is on its way.
template <RowForm kForm>
__device__ __noinline__ ProposalMemory::Hint find_hint(const RowsTask& task, unsigned char* dynamic,
                                                       float scale, float top_p) {
  constexpr int kHalvings = 9;
  constexpr float kOctaves = 29.0F;  // below the tile's largest value
  constexpr float kLess = 0.02F;     // of the mass: what a proposal from the hint on has to spare
  const SharedRow place{task, 0, dynamic, nullptr};
  const TileRow<kForm> row(task.rows, task.allowed, place.number(), false);
  ProposalMemory& memory = *place.proposals<kForm>();
  RawTile raw;
  load_again(row, warp_of_thread(), raw);
  float x[kLaneValues];
  TilePass<kForm, false>::read(row, raw, x);
  float largest = x[0];
#pragma unroll
  for (const float value : x) largest = fmaxf(largest, value);
  largest = reduce_warp(largest, Maximum{});
  const float octave = float_octave_origin(largest, scale) - kOctaveOrigin;
  float weights[kLaneValues];
  float all = 0;
#pragma unroll
  for (int i = 0; i < kLaneValues; ++i) {
    weights[i] = rough_exp2(__fmaf_rn(x[i], scale, -octave));
    all += weights[i];
  }
  const float wanted = (top_p - kLess) * reduce_warp(all, Add{});
  float high = largest;
  float low = largest - kOctaves / scale;
#pragma unroll 1
  for (int i = 0; i < kHalvings; ++i) {
    const float middle = 0.5F * (low + high);
    float above = 0;
#pragma unroll
    for (int v = 0; v < kLaneValues; ++v) above += x[v] > middle ? weights[v] : 0.0F;
    if (reduce_warp(above, Add{}) <= wanted) {
      high = middle;
    } else {
      low = middle;
    }
  }
  if (lane_of_thread() == 0) memory.hints[warp_of_thread()] = {high, octave};
  sync_block();
  return hint_of(memory);
}

}  // namespace fairdraw::cuda
