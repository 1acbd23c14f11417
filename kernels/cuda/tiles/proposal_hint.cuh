// Finds a hint for a row that draws by proposals: a value for which the first pass finds out
// whether all larger proposals are accepted.
//
// In calls with many rows, each row has a single block, and a separate pass to decide about
// proposals would read the row from memory a second time. So the first pass sums the mass above a
// single value, the hint, with floats, which takes 4 instructions per value. The hint is found in
// nine halvings of a range. On the average of the block's warps, the mass above the hint is a
// little less than top_p of the mass of the warp's first tile. If the mass above the hint is less
// than the row's target, all proposals >= the hint are accepted; if the mass is more, all proposals
// <= the hint are rejected. A bad hint affects no result; it only makes more rows need another
// pass.
#pragma once

#include <cstdint>

#include "cuda/tiles/mass_above.cuh"
#include "cuda/tiles/shared_row.cuh"

namespace fairdraw::cuda {

/// Returns the hint of a row, which combines the hints of the block's warps.
__device__ __forceinline__ ProposalMemory::Hint hint_of(const ProposalMemory& memory) {
  const int warps = warps_of_block();
  ProposalMemory::Hint mine{0.0F, -INFINITY};
  if (lane_of_thread() < warps) mine = memory.hints[lane_of_thread()];
  const float value = reduce_warp(mine.value, Add{}) / static_cast<float>(warps);
  return {value, reduce_warp(mine.octave, Maximum{})};
}

/// Finds the hint of a row of logits, with all threads of the row's only block; each warp must have
/// a tile. Each warp reads its first tile again, whose copy to shared memory is already under way.
template <RowForm kForm>
__device__ __noinline__ ProposalMemory::Hint find_hint(SharedRow<kForm> place) {
  constexpr int kHalvings = 9;
  constexpr float kOctaves = 29.0F;  // width, in octaves, of the range below the tile's largest
                                     // value that is searched
  constexpr float kLess = 0.02F;  // part of the mass by which the mass above the hint is smaller,
                                  // so that proposals from the hint up are likely to be accepted
  const RowOfTiles<kForm> row = place.asked().row;
  const float scale = place.asked().rule.scale;
  ProposalMemory& memory = *place.proposals();
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
  const float wanted = (place.asked().filters.top_p - kLess) * reduce_warp(all, Add{});
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
