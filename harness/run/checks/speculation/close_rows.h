// Rows of 16-bit probabilities that a draft and a target give almost alike: what is rejected is a
// unit of the dtype's last place. There an acceptance test, or a residual, that is computed in 16
// bits is wrong by a good part of what it decides, where on other rows it is wrong by a thousandth.
#pragma once

#include <span>
#include <vector>

#include "fairdraw/types.h"

namespace fairdraw::harness {

/// Each row sums to exactly 1, and each value is one of the dtype: a multiple of 1/N, N = 2^8 of
/// bfloat16 and 2^11 of float16.
struct CloseRows {
  std::vector<float> draft, target;
};

/// The likeliest token of `source` has m = 177/256 N units of the draft's mass, and m - 1 of the
/// target's; the unit goes to the least likely token, which is never drafted. The ratio 1 - 1/m
/// lies 1.45 units below 1, and so rounds to 1 - 1/N, which rejects 0.69 times as often as it
/// should. A random number that is cut off to units of 1/N rejects 0.69 times as often too, and one
/// that is rounded to 1 rejects drafts whose ratio is 1: all the others.
CloseRows close_ratio(std::span<const float> source, DType dtype);

/// The likeliest token gives three units away. The least likely token, never drafted, gets one, and
/// the next likeliest two, on top of 65/256 N. In float16 that is 520/2048, and 522/2048 rounds to
/// 520/2048 in bfloat16: a residual that is computed there has the first unit alone.
CloseRows close_residual(std::span<const float> source, DType dtype);

}  // namespace fairdraw::harness
