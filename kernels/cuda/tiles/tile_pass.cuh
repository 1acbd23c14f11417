// Index pass over a row, in which a warp reduces the values of a tile to their maximum and the sum
// of their weights.
//
// Contract. For a tile that the warp has in registers (tile_values.cuh), TilePass gives
// order_key(M) of the tile's maximum M, and the sum S of common/tile_weights.h. A tile without an
// allowed token has the key kEmptyTileKey and the sum 0. A tile with a value that makes its row
// fail, even at a banned id, has a key above all other keys instead (kNegativeKey and above). So
// the largest key of a row determines the status of the row, and faults need no other memory.
//
// Algorithm and cost. Per lane, the largest value and the check for NaN take 8 instructions (4 if
// 16-bit values are compared in pairs) and one reduction of the warp. Weights by float arithmetic
// take 13 instructions per value, and the sum over the lanes takes 3 reductions of 27 bits. If
// float arithmetic is not exact for a tile (float_octaves_are_exact), separate code computes the
// tile's weights with doubles, at the cost of one branch per tile. In masked and processed rows,
// two maxima are computed: the maximum of all values in memory, which shows faults, and the maximum
// of the allowed values.
//
// Numerics: the weights are those of the float functions in common/tile_weights.h. Determinism: the
// results are sums of integers and maxima, so that they do not depend on lanes, warps or blocks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cstdint>

#include "common/float_order.h"
#include "common/tile_weights.h"
#include "cuda/rows/tile_values.cuh"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// Keys of tiles with a value that makes the row fail, which are above the keys of all finite
/// values. A more severe fault has a larger key.
inline constexpr std::int32_t kNegativeKey = 0x7f800000;
inline constexpr std::int32_t kInfiniteKey = 0x7f800001;
inline constexpr std::int32_t kNanKey = 0x7f800002;

/// Returns the status of a row from the largest key of its tiles.
__device__ inline RowStatus status_of_key(std::int32_t key) {
  if (key == kEmptyTileKey) return RowStatus::no_allowed_token;
  if (key < kNegativeKey) return RowStatus::ok;
  if (key == kNegativeKey) return RowStatus::negative_probability;
  return key == kInfiniteKey ? RowStatus::infinite_input : RowStatus::nan_input;
}

/// Returns the status of a processed row, given the largest key of the row and the faults in
/// `edits`. A fault of the row's values takes precedence over faults in `edits`, unless the latter
/// is a fault of parameters.
__device__ __noinline__ inline RowStatus status_of_fault(std::int32_t key, RowFault edits) {
  RowFault fault = RowFault::none;
  if (key == kInfiniteKey) fault = RowFault::infinite_input;
  if (key == kNanKey) fault = RowFault::nan_input;
  if (edits > fault) fault = edits;
  return fault == RowFault::none ? status_of_key(key) : status_of(fault);
}
__device__ __forceinline__ RowStatus status_of_key(std::int32_t key, RowFault edits) {
  if (key > kEmptyTileKey && key < kNegativeKey && edits == RowFault::none) return RowStatus::ok;
  return status_of_fault(key, edits);
}

/// Entry of a tile in the index, on every lane of the warp.
struct TileEntry {
  std::int32_t key;
  std::uint64_t sum;
};

/// Returns the larger value, or NaN if one value is NaN.
__device__ __forceinline__ float max_or_nan(float a, float b) {
  float larger = 0;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
}

/// Returns the sum over all lanes, each of which has a sum of 8 weights; a lane's sum is below
/// 2^59, and the result is below 2^64.
__device__ __forceinline__ std::uint64_t warp_sum_of_tile(std::uint64_t sum) {
  constexpr int kPartBits = 27;  // number of bits of a part, such that the sum of 32 parts fits
                                 // into a 32-bit word
  constexpr std::uint32_t kPart = (1U << kPartBits) - 1;
  const std::uint32_t low = __reduce_add_sync(kAllLanes, static_cast<std::uint32_t>(sum) & kPart);
  const std::uint32_t middle =
      __reduce_add_sync(kAllLanes, static_cast<std::uint32_t>(sum >> kPartBits) & kPart);
  const std::uint32_t high =
      __reduce_add_sync(kAllLanes, static_cast<std::uint32_t>(sum >> (2 * kPartBits)));
  return low + (std::uint64_t{middle} << kPartBits) + (std::uint64_t{high} << (2 * kPartBits));
}

/// Returns tile_weight without the branch of its definition, because on the device a shift by 64 or
/// more gives 0.
__device__ __forceinline__ std::uint64_t shifted_weight(std::uint32_t significand,
                                                        std::uint32_t below) {
  std::uint64_t weight = 0;
  asm("shr.u64 %0, %1, %2;"
      : "=l"(weight)
      : "l"(static_cast<std::uint64_t>(significand) << kTileBits), "r"(below));
  return weight;
}

/// Weighing of a row's values, tile by tile.
struct TileWeighing {
  float scale;      ///< result of logit_scale(T), for logits only
  bool wants_sums;  ///< whether sums are computed; otherwise only keys are computed, and all sums
                    ///< are 0
};

/// Weights of a tile's logits or probabilities, given the tile's largest allowed value.
template <bool kFromProbs>
class TileWeights;

template <>
class TileWeights<false> {
 public:
  __device__ __forceinline__ TileWeights(float maximum, const TileWeighing& rule)
      : scale_(rule.scale), maximum_(maximum) {}

  /// Returns whether float arithmetic is exact for the tile, which is the precondition of weigh().
  __device__ __forceinline__ bool are_quick() const {
    return float_octaves_are_exact(maximum_, scale_);
  }
  __device__ __forceinline__ std::uint64_t weigh(float x) const {
    const FloatOctaves octaves = float_octaves_of(x, scale_);
    const float origin = float_octave_origin(maximum_, scale_);
    return shifted_weight(octaves.significand, std::bit_cast<std::uint32_t>(origin) -
                                                   std::bit_cast<std::uint32_t>(octaves.origin));
  }
  /// Returns the distance of a value's octave below the octave of the maximum, which is 64 or more
  /// if the weight of the value is 0.
  __device__ __forceinline__ std::uint32_t octaves_below(float x) const {
    return std::bit_cast<std::uint32_t>(float_octave_origin(maximum_, scale_)) -
           std::bit_cast<std::uint32_t>(float_octave_origin(x, scale_));
  }
  /// Returns the weight of a value by the definition, in double arithmetic, for any finite maximum.
  __device__ __forceinline__ std::uint64_t weigh_slowly(float x) const {
    if (x == -INFINITY) return 0;
    return tile_weight(octaves_of(x, scale_), octaves_of(maximum_, scale_).whole);
  }

 private:
  float scale_, maximum_;
};

/// Weights of probabilities, computed from the exponents and significands of the floats.
/// Precondition: no probability is negative.
template <>
class TileWeights<true> {
 public:
  __device__ __forceinline__ TileWeights(float maximum, const TileWeighing&)
      : exponent_(exponent_of(std::bit_cast<std::uint32_t>(maximum))) {}

  __device__ __forceinline__ bool are_quick() const { return true; }
  __device__ __forceinline__ std::uint64_t weigh(float x) const {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t exponent = exponent_of(bits);
    // The leading bit of the significand, above the fraction, is set in floats that are not
    // subnormal.
    const std::uint32_t significand = bits - ((exponent - 1) << 23);
    return shifted_weight(significand, exponent_ - exponent);
  }
  __device__ __forceinline__ std::uint32_t octaves_below(float x) const {
    return exponent_ - exponent_of(std::bit_cast<std::uint32_t>(x));
  }
  __device__ __forceinline__ std::uint64_t weigh_slowly(float x) const { return weigh(x); }

 private:
  /// Returns the exponent of a float; a subnormal number gets the smallest exponent of normal
  /// numbers.
  __device__ __forceinline__ static std::uint32_t exponent_of(std::uint32_t bits) {
    return ::max(bits >> 23, 1U);
  }

  std::uint32_t exponent_;
};

template <RowForm kForm, bool kFromProbs>
class TilePass {
 public:
  /// Returns the key of a tile's largest allowed value, found over all lanes, or the key of a
  /// fault. Sets x to the lane's values, with empty values in place of tokens that are not allowed.
  __device__ __forceinline__ static std::int32_t largest(const RowOfTiles<kForm>& row,
                                                         const RawTile& raw,
                                                         float (&x)[kLaneValues]) {
    bool fault = false;
    const std::int32_t key = largest(row, raw, x, fault);
    return fault ? fault_of_tile(x) : key;
  }

  /// Returns the key of the largest value even if there is a fault, and sets `fault` to whether
  /// there is a fault.
  __device__ __forceinline__ static std::int32_t largest(const RowOfTiles<kForm>& row,
                                                         const RawTile& raw,
                                                         float (&x)[kLaneValues], bool& fault) {
    RowOfTiles<kForm>::convert(raw, x);
    float lane_max = largest_of_lane(raw, x);
    fault = false;
    if (kFromProbs || row.is_masked()) {
      fault = __any_sync(kAllLanes, has_fault(x, lane_max)) != 0;
      if (row.is_masked() && !fault) {
        change(row, raw, x);
        lane_max = largest_of(x);
      }
      if (kFromProbs) lane_max = fmaxf(lane_max, 0.0F);
    }
    const std::int32_t key = __reduce_max_sync(kAllLanes, order_key(lane_max));
    if (fault || key >= kNegativeKey) {
      // Logits processing has made a value infinite, which the edits of the row report as a fault.
      fault = fault || !row.is_masked();
      return kEmptyTileKey;
    }
    return kFromProbs && key == 0 ? kEmptyTileKey : key;
  }

  /// Reads the lane's values, with empty values in place of tokens that are not allowed.
  __device__ __forceinline__ static void read(const RowOfTiles<kForm>& row, const RawTile& raw,
                                              float (&x)[kLaneValues]) {
    RowOfTiles<kForm>::convert(raw, x);
    if (row.is_masked()) change(row, raw, x);
  }

  /// Returns the sum of the weights of a tile for which largest() returned `key`.
  __device__ __forceinline__ static std::uint64_t sum(const float (&x)[kLaneValues],
                                                      std::int32_t key, const TileWeighing& rule) {
    const TileWeights<kFromProbs> weights(from_order_key(key), rule);
    std::uint64_t of_lane = 0;
    if (weights.are_quick()) {
#pragma unroll
      for (const float value : x) of_lane += weights.weigh(value);
    } else if (key > kEmptyTileKey && key < kNegativeKey) {
      of_lane = slow_sum(x, weights);
    }
    return warp_sum_of_tile(of_lane);
  }

  /// Returns the sum of the weights if float arithmetic is exact for the tile or the tile is empty.
  /// Otherwise the function returns 0 and sets `exact` to false.
  __device__ __forceinline__ static std::uint64_t quick_sum(const float (&x)[kLaneValues],
                                                            std::int32_t key,
                                                            const TileWeighing& rule, bool& exact) {
    const TileWeights<kFromProbs> weights(from_order_key(key), rule);
    exact = weights.are_quick() || key == kEmptyTileKey;
    if (!weights.are_quick()) return 0;
    std::uint64_t of_lane = 0;
#pragma unroll
    for (const float value : x) of_lane += weights.weigh(value);
    return warp_sum_of_tile(of_lane);
  }

 private:
  static constexpr float kEmpty = kFromProbs ? 0.0F : -INFINITY;

  __device__ __forceinline__ static float largest_of(const float (&x)[kLaneValues]) {
    return max_or_nan(max_or_nan(max_or_nan(x[0], x[1]), max_or_nan(x[2], x[3])),
                      max_or_nan(max_or_nan(x[4], x[5]), max_or_nan(x[6], x[7])));
  }

  /// Returns the largest of the lane's values, including banned values; values that are stored in
  /// pairs are compared in pairs.
  __device__ __forceinline__ static float largest_of_lane(const RawTile& raw,
                                                          const float (&x)[kLaneValues]) {
    if constexpr (kForm.type == DType::float32 || kForm.access == TileAccess::values) {
      return largest_of(x);
    } else if constexpr (kForm.type == DType::bfloat16) {
      const auto pair = [&raw](int i) {
        return *reinterpret_cast<const __nv_bfloat162*>(&raw.words[i]);
      };
      const float2 both = __bfloat1622float2(
          __hmax2_nan(__hmax2_nan(pair(0), pair(1)), __hmax2_nan(pair(2), pair(3))));
      return max_or_nan(both.x, both.y);
    } else {
      const auto pair = [&raw](int i) { return *reinterpret_cast<const __half2*>(&raw.words[i]); };
      const float2 both =
          __half22float2(__hmax2_nan(__hmax2_nan(pair(0), pair(1)), __hmax2_nan(pair(2), pair(3))));
      return max_or_nan(both.x, both.y);
    }
  }

  __device__ __forceinline__ static bool has_fault(const float (&x)[kLaneValues], float lane_max) {
    bool fault = !(lane_max < INFINITY);
    if constexpr (kFromProbs) {
#pragma unroll
      for (const float value : x) fault |= value < 0.0F;
    }
    return fault;
  }

  /// Replaces values of tokens that are not allowed by empty values, and edited values by their
  /// processed values.
  __device__ __forceinline__ static void change(const RowOfTiles<kForm>& row, const RawTile& raw,
                                                float (&x)[kLaneValues]) {
    const std::uint32_t bits = RowOfTiles<kForm>::allowed_bits(raw);
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) x[i] = ((bits >> i) & 1U) != 0 ? x[i] : kEmpty;
    if (!kFromProbs && row.is_processed()) row.edit(raw, bits, x);
  }

  __device__ __forceinline__ static std::int32_t fault_of_tile(const float (&x)[kLaneValues]) {
    return fault_of_values(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]);
  }
  /// Returns the key of the fault among the given values. The function is out of line, because it
  /// is rarely executed.
  __device__ __noinline__ static std::int32_t fault_of_values(float x0, float x1, float x2,
                                                              float x3, float x4, float x5,
                                                              float x6, float x7) {
    std::int32_t key = kEmptyTileKey;
    for (const float value : {x0, x1, x2, x3, x4, x5, x6, x7}) {
      if (value != value) key = ::max(key, kNanKey);
      if (value == INFINITY) key = ::max(key, kInfiniteKey);
      if (kFromProbs && value < 0.0F) key = ::max(key, kNegativeKey);
    }
    return __reduce_max_sync(kAllLanes, key);
  }

  /// Sums the weights of a lane in a loop that is not unrolled; in each step, all values move one
  /// place to the front.
  __device__ __noinline__ static std::uint64_t slow_sum_of(float x0, float x1, float x2, float x3,
                                                           float x4, float x5, float x6, float x7,
                                                           TileWeights<kFromProbs> weights) {
    std::uint64_t sum = 0;
#pragma unroll 1
    for (int i = 0; i < kLaneValues; ++i) {
      sum += weights.weigh_slowly(x0);
      x0 = x1, x1 = x2, x2 = x3, x3 = x4, x4 = x5, x5 = x6, x6 = x7;
    }
    return sum;
  }
  __device__ __forceinline__ static std::uint64_t slow_sum(const float (&x)[kLaneValues],
                                                           TileWeights<kFromProbs> weights) {
    return slow_sum_of(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], weights);
  }
};

}  // namespace fairdraw::cuda
