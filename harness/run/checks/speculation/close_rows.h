// Rows of 16-bit probabilities in which draft and target are nearly equal: the rejected mass is a
// unit of the dtype's last place. An acceptance test or a residual that is computed in 16 bits is
// wrong by a good part of the rejected mass; on other rows it is wrong by a thousandth.
#pragma once

#include <span>
#include <vector>

#include "fairdraw/types.h"

namespace fairdraw::harness {

/// Rows of target and draft that each sum to exactly 1. Each probability is exact in the dtype: a
/// multiple of 1/N with N = 2^8 for bfloat16 and 2^11 for float16.
struct CloseRows {
  std::vector<float> draft, target;
};

/// Returns rows in which the likeliest token of `source` has m = 177/256 N units of the draft's
/// mass and m - 1 of the target's. The target's other unit goes to the least likely token, which is
/// never drafted. The ratio 1 - 1/m is 1.45 units below 1 and so rounds to 1 - 1/N, which rejects
/// 0.69 times as often as it should. A random number truncated to units of 1/N also rejects 0.69
/// times as often, and one that rounds to 1 rejects all other drafts, whose ratio is 1.
CloseRows close_ratio(std::span<const float> source, DType dtype);

/// Returns rows in which the likeliest token gives three units away: one to the least likely token,
/// which is never drafted, and two to the next likeliest, which has 65/256 N. In float16 this mass
/// is 520/2048, and 522/2048 rounds to 520/2048 in bfloat16, so a residual computed in bfloat16 has
/// the first unit only.
CloseRows close_residual(std::span<const float> source, DType dtype);

}  // namespace fairdraw::harness
