// Index pass: a warp reduces the values of a tile to their maximum and the sum of their weights.
//
// Contract. TilePass gives order_key(M) and S of common/tile_weights.h for a tile that the warp has
// in registers (tile_values.cuh); a tile without an allowed token has kEmptyTileKey and sum 0. A
// tile with a value that makes its row fail, even at a banned id, instead has a key above all
// others (kNegativeKey and above). So the largest key of a row determines its status, and no other
// memory is needed for faults.
//
// Algorithm and cost. The largest value with NaN takes 8 instructions per lane (4 if 16-bit values
// are compared in pairs) and one reduction of the warp, weights by float arithmetic 13 instructions
// per value, and the sum over lanes 3 reductions of 27 bits. If float arithmetic is not exact
// (float_octaves_are_exact), separate code weighs the tile in double, at one branch per tile. In
// masked and processed rows the maximum is computed twice: of all values in memory, to find faults,
// and of the allowed values.
//
// Numerics: the float functions of common/tile_weights.h. Determinism: integers and a maximum; the
// result does not depend on lanes, warps or blocks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cstdint>

#include "common/float_order.h"
#include "common/tile_weights.h"
#include "cuda/tiles/tile_values.cuh"
#include "fairdraw/tile_index.h"

namespace fairdraw::cuda {

/// Keys of tiles with a value that makes the row fail are above the keys of all finite values. A
/// more severe fault has a larger key.
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

/// Returns the status of a processed row, given its largest key and the faults in `edits`. Faults
/// of the row's values take precedence, except that faults of parameters precede them.
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

/// Returns the sum over all lanes of each lane's sum of 8 weights: below 2^59 each, below 2^64 in
/// total.
__device__ __forceinline__ std::uint64_t warp_sum_of_tile(std::uint64_t sum) {
  constexpr int kPartBits = 27;  // the sum of 32 parts of this many bits fits into a word
  constexpr std::uint32_t kPart = (1U << kPartBits) - 1;
  const std::uint32_t low = __reduce_add_sync(kAllLanes, static_cast<std::uint32_t>(sum) & kPart);
  const std::uint32_t middle =
      __reduce_add_sync(kAllLanes, static_cast<std::uint32_t>(sum >> kPartBits) & kPart);
  const std::uint32_t high =
      __reduce_add_sync(kAllLanes, static_cast<std::uint32_t>(sum >> (2 * kPartBits)));
  return low + (std::uint64_t{middle} << kPartBits) + (std::uint64_t{high} << (2 * kPartBits));
}

/// Returns tile_weight without the branch of its definition, because a shift by 64 or more gives 0
/// on the device.
__device__ __forceinline__ std::uint64_t shifted_weight(std::uint32_t significand,
                                                        std::uint32_t below) {
  std::uint64_t weight = 0;
  asm("shr.u64 %0, %1, %2;"
      : "=l"(weight)
      : "l"(static_cast<std::uint64_t>(significand) << kTileBits), "r"(below));
  return weight;
}

/// Rule that turns a row's values into weights.
struct TileRule {
  float scale;      ///< result of logit_scale(T), for logits only
  bool wants_sums;  ///< whether sums are computed; otherwise only keys are, and sums are 0
};

/// Weights of a tile's logits or probabilities, given the tile's largest allowed value.
template <bool kFromProbs>
class TileWeights;

template <>
class TileWeights<false> {
 public:
  __device__ __forceinline__ TileWeights(float maximum, const TileRule& rule)
      : scale_(rule.scale), maximum_(maximum) {}

  /// Returns whether float arithmetic is exact for the tile, so that weigh() may be called.
  __device__ __forceinline__ bool are_quick() const {
    return float_octaves_are_exact(maximum_, scale_);
  }
  __device__ __forceinline__ std::uint64_t weigh(float x) const {
    const FloatOctaves octaves = float_octaves_of(x, scale_);
    const float origin = float_octave_origin(maximum_, scale_);
    return shifted_weight(octaves.significand, std::bit_cast<std::uint32_t>(origin) -
                                                   std::bit_cast<std::uint32_t>(octaves.origin));
  }
  /// Returns the number of octaves of a value below the maximum's octave; 64 or more if the value's
  /// weight is 0.
  __device__ __forceinline__ std::uint32_t octaves_below(float x) const {
    return std::bit_cast<std::uint32_t>(float_octave_origin(maximum_, scale_)) -
           std::bit_cast<std::uint32_t>(float_octave_origin(x, scale_));
  }
  /// Returns the weight in double by its definition, for any finite maximum.
  __device__ __forceinline__ std::uint64_t weigh_slowly(float x) const {
    if (x == -INFINITY) return 0;
    return tile_weight(octaves_of(x, scale_), octaves_of(maximum_, scale_).whole);
  }

 private:
  float scale_, maximum_;
};

/// Weights of probabilities, computed from the floats' own exponents and significands.
/// Precondition: no value is negative.
template <>
class TileWeights<true> {
 public:
  __device__ __forceinline__ TileWeights(float maximum, const TileRule&)
      : exponent_(exponent_of(std::bit_cast<std::uint32_t>(maximum))) {}

  __device__ __forceinline__ bool are_quick() const { return true; }
  __device__ __forceinline__ std::uint64_t weigh(float x) const {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t exponent = exponent_of(bits);
    // The bit above the fraction is set in floats that are not subnormal.
    const std::uint32_t significand = bits - ((exponent - 1) << 23);
    return shifted_weight(significand, exponent_ - exponent);
  }
  __device__ __forceinline__ std::uint32_t octaves_below(float x) const {
    return exponent_ - exponent_of(std::bit_cast<std::uint32_t>(x));
  }
  __device__ __forceinline__ std::uint64_t weigh_slowly(float x) const { return weigh(x); }

 private:
  /// Returns the exponent of a float; subnormal numbers have the smallest exponent of normal ones.
  __device__ __forceinline__ static std::uint32_t exponent_of(std::uint32_t bits) {
    return ::max(bits >> 23, 1U);
  }

  std::uint32_t exponent_;
};

template <RowForm kForm, bool kFromProbs>
class TilePass {
 public:
  /// Returns the key of a tile's largest allowed value over all lanes, or the key of a fault. Sets
  /// x to the lane's values, with empty values for tokens that are not allowed.
  __device__ __forceinline__ static std::int32_t largest(const TileRow<kForm>& row,
                                                         const RawTile& raw,
                                                         float (&x)[kLaneValues]) {
    bool fault = false;
    const std::int32_t key = largest(row, raw, x, fault);
    return fault ? fault_of_tile(x) : key;
  }

  /// Returns the largest key without replacing it by a fault's key; `fault` is set to whether there
  /// is a fault.
  __device__ __forceinline__ static std::int32_t largest(const TileRow<kForm>& row,
                                                         const RawTile& raw,
                                                         float (&x)[kLaneValues], bool& fault) {
    TileRow<kForm>::convert(raw, x);
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
      // Processing made a value infinite, which the row's edits report as a fault.
      fault = fault || !row.is_masked();
      return kEmptyTileKey;
    }
    return kFromProbs && key == 0 ? kEmptyTileKey : key;
  }

  /// Reads the lane's values, with empty values for tokens that are not allowed.
  __device__ __forceinline__ static void read(const TileRow<kForm>& row, const RawTile& raw,
                                              float (&x)[kLaneValues]) {
    TileRow<kForm>::convert(raw, x);
    if (row.is_masked()) change(row, raw, x);
  }

  /// Returns the sum of the weights of a tile for which largest() returned `key`.
  __device__ __forceinline__ static std::uint64_t sum(const float (&x)[kLaneValues],
                                                      std::int32_t key, const TileRule& rule) {
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

  /// Returns the sum of weights if float arithmetic is exact or the tile is empty; otherwise
  /// returns 0 and sets `exact` to false.
  __device__ __forceinline__ static std::uint64_t quick_sum(const float (&x)[kLaneValues],
                                                            std::int32_t key, const TileRule& rule,
                                                            bool& exact) {
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

  /// Returns the largest of the lane's values, including banned ones; two at a time if they are
  /// stored in pairs.
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

  /// Replaces values that are not allowed by empty ones, and edited values by their processed
  /// values.
  __device__ __forceinline__ static void change(const TileRow<kForm>& row, const RawTile& raw,
                                                float (&x)[kLaneValues]) {
    const std::uint32_t bits = TileRow<kForm>::allowed_bits(raw);
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) x[i] = ((bits >> i) & 1U) != 0 ? x[i] : kEmpty;
    if (!kFromProbs && row.is_processed()) row.edit(raw, bits, x);
  }

  __device__ __forceinline__ static std::int32_t fault_of_tile(const float (&x)[kLaneValues]) {
    return fault_of_values(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]);
  }
  /// Returns the key of the fault among some values. Out of line because it is rarely executed.
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

  /// Sums a lane's weights in a loop that is not unrolled: in each step all values move one place
  /// to the front.
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
