// Makes rows of 16-bit probabilities in which draft and target are nearly equal: the rejected mass
// is one unit in the last place of the dtype. On these rows, an acceptance test or a residual that
// is computed in 16 bits is wrong by a large part of the rejected mass; on other rows it is wrong
// by a thousandth.
#pragma once

#include <span>
#include <vector>

#include "fairdraw/types.h"

namespace fairdraw::harness {

/// Rows of target and draft, each of which sums to exactly 1. Each probability is exact in the
/// dtype: a multiple of 1/N with N = 2^8 for bfloat16 and 2^11 for float16.
struct CloseRows {
  std::vector<float> draft, target;
};

/// Returns rows in which the likeliest token of `source` has m = 177/256 N units of the draft's
/// mass and m - 1 units of the target's. The target's remaining unit goes to the least likely
/// token, which is never drafted. The ratio 1 - 1/m is 1.45 units below 1, so in 16 bits it rounds
/// to 1 - 1/N, which rejects 0.69 times as often as it should. A random number truncated to units
/// of 1/N also rejects 0.69 times as often, and one that rounds to 1 rejects all other drafts,
/// whose ratio is 1.
CloseRows close_ratio(std::span<const float> source, DType dtype);

/// Returns rows in which the target takes three units from the likeliest token: one unit goes to
/// the least likely token, which is never drafted, and two go to the next likeliest token, which
/// has 65/256 N. In float16 the next likeliest token has the mass 520/2048, and 522/2048 rounds to
/// 520/2048 in bfloat16, so a residual that is computed in bfloat16 has only the first unit.
CloseRows close_residual(std::span<const float> source, DType dtype);

}  // namespace fairdraw::harness
