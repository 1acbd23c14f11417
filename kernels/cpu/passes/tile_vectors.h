// Weights of tiles in vectors: evaluates common/tile_weights.h for a vector of values at a time.
// The code is shared by tile_passes_simd.cpp and all other code that weighs values in vectors.
//
// Included like vectors.h.
//
// A rule (FloatLogits, DoubleLogits or Probabilities) is constructed from the maximum of a tile.
// The rule gives the significand m of a value, and the number of octaves that the value is below
// the maximum; weights_of computes the weight v from these two numbers. No check of ranges is
// needed: -inf and values far below the maximum are 64 or more octaves below it, and a shift by so
// much makes any m 0.
#if defined(FAIRDRAW_CPU_TILE_VECTORS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FAIRDRAW_CPU_TILE_VECTORS_H
#undef FAIRDRAW_CPU_TILE_VECTORS_H
#else
#define FAIRDRAW_CPU_TILE_VECTORS_H
#endif

#include <cstddef>
#include <cstdint>

#include "common/tile_weights.h"
#include "cpu/passes/vectors.h"

#ifdef FAIRDRAW_TARGET

HWY_BEFORE_NAMESPACE();
namespace fairdraw::cpu {
namespace HWY_NAMESPACE {

static_assert(kTileSize % (2 * kMaxLanes) == 0);

/// Number of vectors that are weighed side by side, which is as many as the registers allow. Each
/// vector takes a chain of ten dependent instructions, and out-of-order execution overlaps only two
/// or three such chains.
constexpr std::size_t kChains = HWY_TARGET == HWY_AVX3 ? 4 : 4;

/// Numbers m of values, with the octaves of the values below the tile's maximum; from 256 octaves
/// on, m has no meaning. Structs of vectors have explicit constructors, because g++ does not
/// compile implicit constructors for the target, and implicit constructors cannot create NEON
/// vectors.
struct RelativeOctaves {
  HWY_INLINE RelativeOctaves() : significand(hn::Zero(U32())), below(hn::Zero(U32())) {}
  HWY_INLINE RelativeOctaves(VecU32 m, VecU32 octaves) : significand(m), below(octaves) {}

  VecU32 significand, below;
};

/// Computes exp2_significand for several vectors, interleaved step by step.
template <std::size_t kCount>
HWY_INLINE void significands_of(const VecF (&fraction)[kCount], VecU32 (&significand)[kCount]) {
  const F32 f32;
  VecF q[kCount];
  for (VecF& each : q) each = hn::Set(f32, 0x1.5bda58p-10F);
  const auto step = [&](float coefficient) HWY_ATTR {
    for (std::size_t i = 0; i < kCount; ++i) {
      q[i] = hn::MulAdd(q[i], fraction[i], hn::Set(f32, coefficient));
    }
  };
  step(0x1.3ce8aep-7F);
  step(0x1.c6b6d8p-5F);
  step(0x1.ebf9c2p-3F);
  step(0x1.62e42ap-1F);
  step(1.5F);
  for (std::size_t i = 0; i < kCount; ++i) {
    significand[i] = hn::Sub(hn::BitCast(U32(), q[i]), hn::Set(U32(), 0x3f400000U));
  }
}

/// Octaves of logits, computed with floats; the maximum of the tile must satisfy
/// float_octaves_are_exact.
class FloatLogits {
 public:
  HWY_INLINE FloatLogits(float maximum, float scale)
      : scale_(hn::Set(F32(), scale)), top_(origin_of(hn::Set(F32(), maximum))) {}

  /// Computes the octaves of several vectors, interleaved step by step.
  template <std::size_t kCount>
  HWY_INLINE void octaves(const VecF (&x)[kCount], RelativeOctaves (&out)[kCount]) const {
    VecF origin[kCount], fraction[kCount];
    VecU32 significand[kCount];
    for (std::size_t i = 0; i < kCount; ++i) origin[i] = origin_of(x[i]);
    for (std::size_t i = 0; i < kCount; ++i) {
      fraction[i] = hn::MulSub(x[i], scale_, hn::Sub(origin[i], hn::Set(F32(), kOctaveOrigin)));
    }
    significands_of(fraction, significand);
    for (std::size_t i = 0; i < kCount; ++i) {
      out[i] = {significand[i], hn::Sub(hn::BitCast(U32(), top_), hn::BitCast(U32(), origin[i]))};
    }
  }

 private:
  HWY_INLINE VecF origin_of(VecF x) const {
    return hn::MulAdd(x, scale_, hn::Set(F32(), kOctaveOrigin));
  }

  VecF scale_, top_;
};

/// Octaves of logits of any magnitude, computed with doubles.
class DoubleLogits {
 public:
  HWY_INLINE DoubleLogits(float maximum, float scale)
      : scale_(hn::Set(F64(), static_cast<double>(scale))),
        top_(hn::Round(hn::Mul(hn::Set(F64(), static_cast<double>(maximum)), scale_))) {}

  template <std::size_t kCount>
  HWY_INLINE void octaves(const VecF (&x)[kCount], RelativeOctaves (&out)[kCount]) const {
    for (std::size_t i = 0; i < kCount; ++i) out[i] = octaves_of_vector(x[i]);
  }

 private:
  HWY_INLINE RelativeOctaves octaves_of_vector(VecF x) const {
    const HalfF32 half;
    const Half low = octaves_of_half(hn::PromoteTo(F64(), hn::LowerHalf(half, x)));
    const Half high = octaves_of_half(hn::PromoteTo(F64(), hn::UpperHalf(half, x)));
    const VecF fraction[1] = {hn::Combine(F32(), high.fraction, low.fraction)};
    VecU32 significand[1];
    significands_of(fraction, significand);
    const hn::RebindToSigned<F32> i32;
    return {significand[0], hn::BitCast(U32(), hn::Combine(i32, high.below, low.below))};
  }

  struct Half {
    hn::Vec<HalfF32> fraction;
    hn::Vec<HalfI32> below;
  };

  HWY_INLINE Half octaves_of_half(VecF64 x) const {
    const VecF64 y = hn::Mul(x, scale_);
    const VecF64 whole = hn::Round(y);
    const VecF64 most = hn::Set(F64(), static_cast<double>(kWrittenOctaves));
    return {hn::DemoteTo(HalfF32(), hn::Sub(y, whole)),
            hn::DemoteTo(HalfI32(), hn::Min(hn::Sub(top_, whole), most))};
  }

  VecF64 scale_, top_;
};

/// Octaves of probabilities, read from the significands and exponents of the floats.
class Probabilities {
 public:
  HWY_INLINE explicit Probabilities(float maximum) : top_(exponent_of(hn::Set(F32(), maximum))) {}

  template <std::size_t kCount>
  HWY_INLINE void octaves(const VecF (&x)[kCount], RelativeOctaves (&out)[kCount]) const {
    for (std::size_t i = 0; i < kCount; ++i) out[i] = octaves_of_vector(x[i]);
  }

 private:
  HWY_INLINE RelativeOctaves octaves_of_vector(VecF x) const {
    const U32 u32;
    const VecU32 exponent = exponent_of(x);
    // bits = exponent 2^23 + fraction. The exponent is subtracted except for 2^23, the leading bit
    // of the significand, which subnormal numbers do not have.
    const VecU32 excess = hn::ShiftLeft<23>(hn::Sub(exponent, hn::Set(u32, 1)));
    return {hn::Sub(hn::BitCast(u32, x), excess), hn::Sub(top_, exponent)};
  }

  /// Returns the exponent field of each float, or 1 for subnormal numbers.
  static HWY_INLINE VecU32 exponent_of(VecF x) {
    const U32 u32;
    return hn::Max(hn::ShiftRight<23>(hn::BitCast(u32, x)), hn::Set(u32, 1));
  }

  VecU32 top_;
};

/// Weights v of 2 * Lanes(U64) values, separately for values at even positions and at odd
/// positions.
struct Weights {
  HWY_INLINE Weights() : even(hn::Zero(U64())), odd(hn::Zero(U64())) {}
  HWY_INLINE Weights(VecU64 even_places, VecU64 odd_places) : even(even_places), odd(odd_places) {}

  VecU64 even, odd;
};

/// Adds up lanes as unsigned integers. SumOfLanes is not used, because with AVX-512 and g++ it adds
/// lanes as signed integers, and a sanitizer reports an overflow from 2^63 on.
template <class D>
HWY_INLINE std::uint64_t sum_of_lanes(D d, hn::Vec<D> lanes) {
  if constexpr (hn::MaxLanes(d) == 2) {
    return hn::GetLane(lanes) + hn::ExtractLane(lanes, 1);
  } else {
    const hn::Half<D> half;
    return sum_of_lanes(half, hn::Add(hn::LowerHalf(half, lanes), hn::UpperHalf(half, lanes)));
  }
}

/// Sum of weights, with one accumulator for even lanes and one for odd lanes.
class WeightSum {
 public:
  HWY_INLINE WeightSum() : sums_{hn::Zero(U64()), hn::Zero(U64())} {}

  HWY_INLINE void add(const Weights& weights) {
    sums_ = {hn::Add(sums_.even, weights.even), hn::Add(sums_.odd, weights.odd)};
  }
  HWY_INLINE void add_where(hn::Mask<F32> mask, const Weights& weights) {
#if HWY_TARGET == HWY_AVX3
    // Extracts the bits of the mask for even lanes and for odd lanes.
    const std::uint32_t bits = mask.raw;
    const auto even = static_cast<__mmask8>(_pext_u32(bits, 0x5555U));
    const auto odd = static_cast<__mmask8>(_pext_u32(bits, 0xaaaaU));
    sums_.even.raw = _mm512_mask_add_epi64(sums_.even.raw, even, sums_.even.raw, weights.even.raw);
    sums_.odd.raw = _mm512_mask_add_epi64(sums_.odd.raw, odd, sums_.odd.raw, weights.odd.raw);
#else
    const U64 u64;
    // Each lane of 64 bits gets the mask of one of its two values.
    const auto wide = hn::VecFromMask(F32(), mask);
    add({hn::And(weights.even, hn::BitCast(u64, hn::DupEven(wide))),
         hn::And(weights.odd, hn::BitCast(u64, hn::DupOdd(wide)))});
#endif
  }

  /// Returns a vector whose lanes, added up, give the sum of the weights.
  HWY_INLINE VecU64 total() const { return hn::Add(sums_.even, sums_.odd); }

 private:
  Weights sums_;
};

/// Shifts right, where counts from 64 on (from 64 to 127 on NEON) give 0.
HWY_INLINE VecU64 shift_right(VecU64 value, VecU64 count) {
#if HWY_ARCH_ARM_A64
  // The shift of Highway requires counts below 64, so the instruction is used directly.
  return VecU64{vshlq_u64(value.raw, vnegq_s64(vreinterpretq_s64_u64(count.raw)))};
#else
  return hn::Shr(value, count);
#endif
}

/// Computes tile_weight for a vector of values.
HWY_INLINE Weights weights_of(const RelativeOctaves& value) {
  const U64 u64;
#if HWY_ARCH_ARM_A64
  // The shift instruction reads only the low byte of the count. The limit is 64, because a count of
  // 64 gives 0, while 63 would leave the highest bit of an m without meaning.
  const VecU32 below = hn::Min(value.below, hn::Set(U32(), kTileOctaves));
#else
  const VecU32 below = value.below;
#endif
  const VecU32 zero = hn::Zero(U32());
  // The number m 2^32 is m in the upper half of a lane of 64 bits.
  static_assert(kTileBits == 32);
  const VecU64 even = hn::ShiftLeft<kTileBits>(hn::BitCast(u64, value.significand));
  const VecU64 odd = hn::BitCast(u64, hn::OddEven(value.significand, zero));
  return {shift_right(even, hn::BitCast(u64, hn::OddEven(zero, below))),
          shift_right(odd, hn::ShiftRight<32>(hn::BitCast(u64, below)))};
}

/// Adapts a rule to the interface of NearLogits in near_sums.h, which returns the terms that Sum
/// adds.
template <class Rule>
class WideTerms {
 public:
  using Term = Weights;
  using Sum = WeightSum;

  HWY_INLINE explicit WideTerms(const Rule& rule) : rule_(rule) {}

  template <std::size_t kCount>
  HWY_INLINE void weigh(const VecF (&x)[kCount], Term (&out)[kCount]) const {
    RelativeOctaves octaves[kCount];
    rule_.octaves(x, octaves);
    for (std::size_t i = 0; i < kCount; ++i) out[i] = weights_of(octaves[i]);
  }

 private:
  Rule rule_;
};

/// Computes the octaves of the values in a single vector.
template <class Rule>
HWY_INLINE RelativeOctaves octaves_by(const Rule& rule, VecF x) {
  const VecF values[1] = {x};
  RelativeOctaves octaves[1];
  rule.octaves(values, octaves);
  return octaves[0];
}

/// Returns the weights of the values of a vector, which are 0 for x < low.
template <class Rule>
HWY_INLINE Weights weights_from(VecF x, const Rule& rule, VecF low) {
  RelativeOctaves value = octaves_by(rule, x);
  value.significand = hn::IfThenElseZero(hn::RebindMask(U32(), hn::Ge(x, low)), value.significand);
  return weights_of(value);
}

}  // namespace HWY_NAMESPACE
}  // namespace fairdraw::cpu
HWY_AFTER_NAMESPACE();

#endif  // FAIRDRAW_TARGET

#endif  // end of the include guard, which is one per target
