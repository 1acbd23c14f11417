// Bins that group a row's values by their distance to the largest value, for guesses of a
// threshold.
//
// The bins have equal width (for probabilities, equal width in octaves), so that the values of one
// bin have about the same weight. The target p of a nucleus limits how far the bins must reach. The
// tokens below the threshold together have the weight (1 - p) Z, where Z is the mass of the row,
// and each of these tokens weighs at most as much as the threshold. So the threshold's weight is at
// least (1 - p) Z / V.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "cuda/tiles/tile_pass.cuh"

namespace fairdraw::cuda {

inline constexpr float kKeysOfOctave = 0x1p23F;  ///< number of keys per octave of probabilities

/// Returns a quotient that is accurate to two units in the last place, which is enough for guesses.
/// A correctly rounded division of numbers as large as masses calls a function, whose code each
/// call of the kernel loads from memory.
__device__ __forceinline__ float rough_quotient(float dividend, float divisor) {
  return __fdividef(dividend, divisor);
}

/// Rule that assigns a row's values to bins by their distance to the largest value.
template <bool kFromProbs>
struct BinRule {
  float largest;
  std::int32_t largest_key;
  float bins_of_distance;
  int count;  ///< number of bins

  __device__ BinRule(std::int32_t key, float of_distance, int bins)
      : largest(from_order_key(key)),
        largest_key(key),
        bins_of_distance(of_distance),
        count(bins) {}

  __device__ __forceinline__ float distance(float x) const {
    if constexpr (kFromProbs) return static_cast<float>(largest_key - order_key(x));
    return largest - x;
  }
  /// Returns the bin of the values at a given distance from the largest value. The last bin also
  /// contains all values that are farther away.
  __device__ __forceinline__ int bin_of(float distance) const {
    return static_cast<int>(fminf(distance * bins_of_distance, static_cast<float>(count - 1)));
  }
  /// Returns a key near the start of a bin; for a fractional bin number, returns a key near the
  /// corresponding point within the bin.
  __device__ std::int32_t key_of(float bin) const {
    const float distance = rough_quotient(bin, bins_of_distance);
    if constexpr (kFromProbs) return largest_key - static_cast<std::int32_t>(distance);
    return order_key(fmaxf(largest - distance, from_order_key(kEmptyTileKey + 1)));
  }
  /// Returns the approximate weight of a value in the middle of a bin, relative to the weight of
  /// the largest value.
  __device__ __forceinline__ float weight_of(int bin, float scale) const {
    const float middle = rough_quotient(static_cast<float>(bin) + 0.5F, bins_of_distance);
    if constexpr (kFromProbs) {
      const std::int32_t key = max(largest_key - static_cast<std::int32_t>(middle), 0);
      return rough_quotient(from_order_key(key), largest);
    }
    return exp2f(-middle * scale);
  }
};

/// Returns the number of octaves, plus one, from the largest value, whose weight is `largest`, to
/// the smallest threshold that a nucleus may have. `rest` is the mass below the threshold, in the
/// same unit as `mass`.
__device__ inline float octaves_to_reach(float mass, float rest, float largest, int vocab) {
  constexpr float kMinRest = 0x1p-24F;  // smallest part of the mass that is used, because floats
                                        // do not have the last bits of the mass
  constexpr float kMaxOctaves = 40.0F;  // limit of the result, which is needed if p is close to 1
  const float least = rough_quotient(fmaxf(rest, mass * kMinRest), static_cast<float>(vocab));
  return fminf(fmaxf(log2f(rough_quotient(largest, least)), 0.0F) + 1.0F, kMaxOctaves);
}

/// Calls visit(value) for a lane's values of a tile, except for one value that equals the tile's
/// largest.
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
