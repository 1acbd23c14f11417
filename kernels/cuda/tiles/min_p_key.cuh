// Finds the smallest key that min_p keeps, so that min_p becomes a threshold on keys.
//
// A logit is kept if its distance to the largest logit, in octaves as float32, is not below
// log2(min_p) (common/min_p.h). A probability is kept if it is not below the exact product of min_p
// and the largest probability. Both conditions are monotone in the value, so the threshold is
// bisected over the keys, in at most 32 steps and without reading memory. The code that finishes
// rows then treats the threshold of min_p as one more lower bound.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "common/min_p.h"

namespace fairdraw::cuda {

/// Calls min_p_octaves out of line, because few rows need it and its code is long.
__device__ __noinline__ inline float called_min_p_octaves(float min_p) {
  return min_p_octaves(min_p);
}

/// Finds the smallest key that min_p keeps in a row; min_p must be in (0, 1], and `scale` must be
/// logit_scale(T). The search covers the keys from `lowest` to `largest`, the row's largest key,
/// which min_p always keeps.
template <bool kFromProbs>
__device__ __noinline__ std::int32_t smallest_key_kept(float min_p, float scale,
                                                       std::int32_t lowest, std::int32_t largest) {
  const float max = from_order_key(largest);
  const float octaves = kFromProbs ? 0.0F : called_min_p_octaves(min_p);
  const auto keeps = [&](std::int32_t key) {
    const float x = from_order_key(key);
    if constexpr (kFromProbs) {  // the product of two floats is exact as a double
      return static_cast<double>(x) >= static_cast<double>(min_p) * static_cast<double>(max);
    } else {
      return __fmul_rn(__fsub_rn(x, max), scale) >= octaves;
    }
  };
  std::int32_t low = lowest;
  std::int32_t high = largest;
#pragma unroll 1
  while (low < high) {
    const std::uint32_t half =
        (static_cast<std::uint32_t>(high) - static_cast<std::uint32_t>(low)) / 2U;
    const auto middle = static_cast<std::int32_t>(static_cast<std::uint32_t>(low) + half);
    if (keeps(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace fairdraw::cuda
