// Sums of the weights of near tiles, computed in lanes of 32 bits. A tile of logits is called near
// if all its values are fewer than 32 octaves below the tile's maximum. The code is for passes that
// sum whole tiles.
//
// Included like vectors.h.
//
// A weight v = m 2^(32 - s) has 56 bits and needs a lane of 64 bits, so a vector has only half as
// many weights as values. With s < 32, however, no bit of m is cut off, and v is determined by two
// parts of 32 bits. The first part is floor(v / 2^28), which is m 2^4 shifted right by s; the
// second part is v modulo 2^32, which is m shifted left by 32 - s. Over 16 values, the first parts
// have a sum H < 2^31.5, and the second parts have a sum L modulo 2^32. The truncation makes 2^28 H
// smaller than the sum of v by less than 16 2^28 = 2^32, so the sum of v is 2^28 H + ((L - 2^28 H)
// modulo 2^32).
//
// Each vector of values costs 7 fused multiply-adds and 9 other instructions; tile_vectors.h needs
// 11 other instructions. No test finds out beforehand whether a tile is near: the octaves of all
// values are combined by `or`, and afterwards the caller tests whether the tile that was summed is
// near. A tile with NaN, with -inf, or with values beyond the range of float arithmetic is not
// near. The sum of such a tile has no meaning, and tile_vectors.h must sum the tile instead.
#if defined(FAIRDRAW_CPU_NEAR_SUMS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FAIRDRAW_CPU_NEAR_SUMS_H
#undef FAIRDRAW_CPU_NEAR_SUMS_H
#else
#define FAIRDRAW_CPU_NEAR_SUMS_H
#endif

#include <bit>
#include <cstddef>
#include <cstdint>

#include "cpu/passes/tile_vectors.h"

#ifdef FAIRDRAW_TARGET

HWY_BEFORE_NAMESPACE();
namespace fairdraw::cpu {
namespace HWY_NAMESPACE {

/// Two parts of the weights of a vector of values, floor(v / 2^28) and v modulo 2^32.
struct WeightParts {
  HWY_INLINE WeightParts() : high(hn::Zero(U32())), low(hn::Zero(U32())) {}
  HWY_INLINE WeightParts(VecU32 above, VecU32 rest) : high(above), low(rest) {}

  VecU32 high, low;
};

constexpr int kHighShift = 28;
/// Number of vectors of parts that may be added without an overflow.
constexpr std::size_t kPartTerms = 16;
static_assert(kTileBits == 32);

/// Sum of the parts of at most kPartTerms vectors of weights.
class PartSum {
 public:
  HWY_INLINE PartSum() : high_(hn::Zero(U32())), low_(hn::Zero(U32())) {}

  HWY_INLINE void add(const WeightParts& parts) {
    high_ = hn::Add(high_, parts.high);
    low_ = hn::Add(low_, parts.low);
  }
  HWY_INLINE void add_where(hn::Mask<F32> mask, const WeightParts& parts) {
#if HWY_TARGET == HWY_AVX3
    high_.raw = _mm512_mask_add_epi32(high_.raw, mask.raw, high_.raw, parts.high.raw);
    low_.raw = _mm512_mask_add_epi32(low_.raw, mask.raw, low_.raw, parts.low.raw);
#else
    const auto where = hn::RebindMask(U32(), mask);
    add({hn::IfThenElseZero(where, parts.high), hn::IfThenElseZero(where, parts.low)});
#endif
  }

  /// Returns a vector whose lanes, added up, give the sum of the weights.
  HWY_INLINE VecU64 total() const {
    const VecU32 rest = hn::Sub(low_, hn::ShiftLeft<kHighShift>(high_));
    return hn::Add(hn::ShiftLeft<kHighShift>(pair_sums(high_)), pair_sums(rest));
  }

 private:
  static HWY_INLINE VecU64 pair_sums(VecU32 lanes) {
    const U64 u64;
    const VecU64 pairs = hn::BitCast(u64, lanes);
    return hn::Add(hn::And(pairs, hn::Set(u64, 0xffffffffU)), hn::ShiftRight<32>(pairs));
  }

  VecU32 high_, low_;
};

/// Computes the weights, in parts, of the logits of a tile whose maximum satisfies
/// float_octaves_are_exact.
///
/// Octaves are counted directly as distances below N, the octave of the maximum: x (-c) +
/// (kOctaveOrigin + N) is rounded to kOctaveOrigin + s. If x c is halfway between two integers,
/// this sum may be rounded to the other integer than in float_octaves_of. In this case, m is twice
/// as large and s is larger by one, so v is the same.
class NearLogits {
 public:
  using Term = WeightParts;
  using Sum = PartSum;

  HWY_INLINE NearLogits(float maximum, float scale)
      : scale_(hn::Set(F32(), scale)),
        origin_(hn::Set(F32(), float_octave_origin(maximum, scale))),
        seen_(hn::Zero(U32())) {}

  /// Computes the weights of several vectors, interleaved step by step, like FloatLogits::octaves.
  template <std::size_t kCount>
  HWY_INLINE void weigh(const VecF (&x)[kCount], WeightParts (&out)[kCount]) {
    const U32 u32;
    VecF counts[kCount], fraction[kCount];
    VecU32 significand[kCount];
    for (std::size_t i = 0; i < kCount; ++i) counts[i] = hn::NegMulAdd(x[i], scale_, origin_);
    for (std::size_t i = 0; i < kCount; ++i) {
      fraction[i] = hn::MulAdd(x[i], scale_, hn::Sub(counts[i], origin_));
    }
    significands_of(fraction, significand);
    if constexpr (kCount % 2 == 0) {
      for (std::size_t i = 0; i < kCount; i += 2) {
        seen_ = hn::Or3(seen_, hn::BitCast(u32, counts[i]), hn::BitCast(u32, counts[i + 1]));
      }
    } else {
      for (const VecF& count : counts) seen_ = hn::Or(seen_, hn::BitCast(u32, count));
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      const VecU32 count = hn::BitCast(u32, counts[i]);
      const VecU32 below = hn::Sub(count, hn::Set(u32, kOrigin));
      const VecU32 above = hn::Sub(hn::Set(u32, kOrigin + kTileBits), count);
      // In every instruction set, a left shift by 32 gives 0.
      out[i] = {hn::Shr(hn::ShiftLeft<kTileBits - kHighShift>(significand[i]), below),
                hn::Shl(significand[i], above)};
    }
  }

  /// Returns whether x is fewer than 32 octaves below the maximum; if x is, so is every larger
  /// value.
  HWY_INLINE bool is_near(float x) const {
    const VecF count = hn::NegMulAdd(hn::Set(F32(), x), scale_, origin_);
    return hn::GetLane(hn::BitCast(U32(), count)) - kOrigin < kTileBits;
  }

  /// Returns whether all values that have been weighed so far are numbers (not NaN) and fewer than
  /// 32 octaves below the maximum.
  HWY_INLINE bool all_near() const {
    const U32 u32;
    const VecU32 others = hn::AndNot(hn::Set(u32, kOrigin | (kTileBits - 1)), seen_);
    return hn::AllTrue(u32, hn::Eq(others, hn::Zero(u32)));
  }

 private:
  static constexpr std::uint32_t kOrigin = 0x4b400000;  // bits of kOctaveOrigin
  static_assert(kOrigin == std::bit_cast<std::uint32_t>(kOctaveOrigin));

  VecF scale_, origin_;
  VecU32 seen_;
};

/// Heuristic that decides whether the sum for near tiles is tried. If a row has values far below
/// the maximum, it has them in many tiles; so after a tile that was not near, the sum is not tried
/// for the next few tiles.
class NearTiles {
 public:
  HWY_INLINE bool tries() { return untried_ == 0 || untried_-- == 0; }
  HWY_INLINE void missed() { untried_ = 7; }

 private:
  int untried_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace fairdraw::cpu
HWY_AFTER_NAMESPACE();

#endif  // FAIRDRAW_TARGET

#endif  // end of the include guard, which is one per target
