// Weights of tiles by vectors: common/tile_weights.h for as many values as a vector holds. What
// tile_passes_simd.cpp, and whoever else weighs values in vectors, is written with.
//
// Included as vectors.h is.
//
// A rule (FloatLogits, DoubleLogits, Probabilities) is made for a tile's maximum and gives m and
// the octaves below it; weights_of turns these into v. No value is compared with a range: counts of
// 64 and more, those of -inf and of values far below, shift to 0, whatever their m is.
#if defined(FAIRDRAW_CPU_TILE_VECTORS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FAIRDRAW_CPU_TILE_VECTORS_H
#undef FAIRDRAW_CPU_TILE_VECTORS_H
#else
#define FAIRDRAW_CPU_TILE_VECTORS_H
#endif

#include <cstddef>
#include <cstdint>

#include "common/tile_weights.h"
#include "cpu/vectors.h"

#ifdef FAIRDRAW_TARGET

HWY_BEFORE_NAMESPACE();
namespace fairdraw::cpu {
namespace HWY_NAMESPACE {

static_assert(kTileSize % (2 * kMaxLanes) == 0);

/// m of values, and how many octaves they are below their tile's maximum: m means nothing from 64.
struct RelativeOctaves {
  VecU32 significand, below;
};

/// exp2_significand of several vectors, step by step.
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

/// Logits where float_octaves_are_exact.
class FloatLogits {
 public:
  HWY_INLINE FloatLogits(float maximum, float scale)
      : scale_(hn::Set(F32(), scale)), top_(origin_of(hn::Set(F32(), maximum))) {}

  /// Of several vectors, step by step: each is a chain of ten instructions that wait for each
  /// other, and the processor looks no further ahead than two or three such chains.
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

/// Logits of any size.
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
    const VecF64 most = hn::Set(F64(), static_cast<double>(kTileOctaves));
    return {hn::DemoteTo(HalfF32(), hn::Sub(y, whole)),
            hn::DemoteTo(HalfI32(), hn::Min(hn::Sub(top_, whole), most))};
  }

  VecF64 scale_, top_;
};

/// Probabilities: their own significands and exponents.
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
    // bits = exponent 2^23 + fraction: all but 2^23, the leading one, goes. Nothing of subnormals.
    const VecU32 excess = hn::ShiftLeft<23>(hn::Sub(exponent, hn::Set(u32, 1)));
    return {hn::Sub(hn::BitCast(u32, x), excess), hn::Sub(top_, exponent)};
  }

  /// That of subnormal numbers is 1.
  static HWY_INLINE VecU32 exponent_of(VecF x) {
    const U32 u32;
    return hn::Max(hn::ShiftRight<23>(hn::BitCast(u32, x)), hn::Set(u32, 1));
  }

  VecU32 top_;
};

/// v of 2 * Lanes(U64) values: those at even places, and those at odd ones.
struct Weights {
  VecU64 even, odd;
};

/// The sum of all of them, unsigned: g++ adds the lanes of SumOfLanes with AVX-512 as signed
/// integers, whose overflow from 2^63 on a sanitizer reports.
HWY_INLINE std::uint64_t total_of(const Weights& weights) {
  HWY_ALIGN std::uint64_t lane[kMaxLanes / 2];
  const U64 u64;
  hn::Store(hn::Add(weights.even, weights.odd), u64, lane);
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < hn::Lanes(u64); ++i) total += lane[i];
  return total;
}

/// Right shift, to 0 from 64 on (NEON: to 127).
HWY_INLINE VecU64 shift_right(VecU64 value, VecU64 count) {
#if HWY_ARCH_ARM_A64
  // Highway asks for counts below 64.
  return VecU64{vshlq_u64(value.raw, vnegq_s64(vreinterpretq_s64_u64(count.raw)))};
#else
  return hn::Shr(value, count);
#endif
}

/// tile_weight.
HWY_INLINE Weights weights_of(const RelativeOctaves& value) {
  const U64 u64;
#if HWY_ARCH_ARM_A64
  // The shift reads the count's low byte. 64 gives 0; 63 would give the highest bit of an m that
  // means nothing.
  const VecU32 below = hn::Min(value.below, hn::Set(U32(), kTileOctaves));
#else
  const VecU32 below = value.below;
#endif
  const VecU32 zero = hn::Zero(U32());
  // m 2^32 is m in the upper half of 64 bits.
  static_assert(kTileBits == 32);
  const VecU64 even = hn::ShiftLeft<kTileBits>(hn::BitCast(u64, value.significand));
  const VecU64 odd = hn::BitCast(u64, hn::OddEven(value.significand, zero));
  return {shift_right(even, hn::BitCast(u64, hn::OddEven(zero, below))),
          shift_right(odd, hn::ShiftRight<32>(hn::BitCast(u64, below)))};
}

/// One vector's.
template <class Rule>
HWY_INLINE RelativeOctaves octaves_by(const Rule& rule, VecF x) {
  const VecF values[1] = {x};
  RelativeOctaves octaves[1];
  rule.octaves(values, octaves);
  return octaves[0];
}

/// Weights, 0 where x < low.
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

#endif  // the toggle of targets
