// Values of a row in bins by their distance to the largest one, for guesses of where a threshold
// is.
//
// Bins are as far apart as the values, of probabilities as their octaves: a bin's values weigh
// about the same. How far they reach follows from the target of a nucleus: what is below its
// threshold weighs (1 - p) Z, and no token of it more than the threshold, which so is at least (1 -
// p) Z / V.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "cuda/tiles/tile_pass.cuh"

namespace fairdraw::cuda {

inline constexpr float kKeysOfOctave = 0x1p23F;  ///< of probabilities

/// A quotient to two units in the last place, which does for guesses. A division that rounds right
/// calls a function for operands like masses, whose code comes from memory once a call.
__device__ __forceinline__ float rough_quotient(float dividend, float divisor) {
  return __fdividef(dividend, divisor);
}

/// How values of a row are put into bins: by their distance to the largest one.
template <bool kFromProbs>
struct BinRule {
  float largest;
  std::int32_t largest_key;
  float bins_of_distance;
  int count;  ///< of bins

  __device__ BinRule(std::int32_t key, float of_distance, int bins)
      : largest(from_order_key(key)),
        largest_key(key),
        bins_of_distance(of_distance),
        count(bins) {}

  __device__ __forceinline__ float distance(float x) const {
    if constexpr (kFromProbs) return static_cast<float>(largest_key - order_key(x));
    return largest - x;
  }
  /// What is too far away for a bin of its own is in the last one.
  __device__ __forceinline__ int bin_of(float distance) const {
    return static_cast<int>(fminf(distance * bins_of_distance, static_cast<float>(count - 1)));
  }
  /// A key about which a bin begins, or a part of it ends.
  __device__ std::int32_t key_of(float bin) const {
    const float distance = rough_quotient(bin, bins_of_distance);
    if constexpr (kFromProbs) return largest_key - static_cast<std::int32_t>(distance);
    return order_key(fmaxf(largest - distance, from_order_key(kEmptyTileKey + 1)));
  }
  /// About what a value in the middle of a bin weighs, relative to the largest one.
  __device__ __forceinline__ float weight_of(int bin, float scale) const {
    const float middle = rough_quotient(static_cast<float>(bin) + 0.5F, bins_of_distance);
    if constexpr (kFromProbs) {
      const std::int32_t key = max(largest_key - static_cast<std::int32_t>(middle), 0);
      return rough_quotient(from_order_key(key), largest);
    }
    return exp2f(-middle * scale);
  }
};

/// Octaves from the largest value, which weighs `largest`, to the least that the threshold of a
/// nucleus can be; and one. rest: what is below the threshold, of a mass in the same unit.
__device__ inline float octaves_to_reach(float mass, float rest, float largest, int vocab) {
  constexpr float kLeastRest = 0x1p-24F;  // of the mass, whose last bits floats do not have
  constexpr float kMostOctaves = 40.0F;   // for p close to 1
  const float least = rough_quotient(fmaxf(rest, mass * kLeastRest), static_cast<float>(vocab));
  return fminf(fmaxf(log2f(rough_quotient(largest, least)), 0.0F) + 1.0F, kMostOctaves);
}

/// Calls visit(value) for a lane's values of a tile; one of the tile's largest is left out.
template <class Visit>
__device__ __forceinline__ void visit_rest(const float (&x)[kLaneValues], const Visit& visit) {
  float largest = x[0];
#pragma unroll
  for (int i = 1; i < kLaneValues; ++i) largest = fmaxf(largest, x[i]);
  const std::int32_t key = order_key(largest);
  const std::int32_t of_tile = __reduce_max_sync(kAllLanes, key);
  const unsigned has = __ballot_sync(kAllLanes, key == of_tile);
  bool leaves_out = __ffs(static_cast<int>(has)) - 1 == static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (const float value : x) {
    const bool left_out = leaves_out && value == largest;
    leaves_out = leaves_out && !left_out;
    if (!left_out) visit(value);
  }
}

}  // namespace fairdraw::cuda
