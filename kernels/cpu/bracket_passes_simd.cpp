// The passes of bracket_passes.h with Highway: compiled once for AVX2, once for AVX-512, and for
// NEON where the compiler targets it, as passes_simd.cpp is.
//
// A tile is read twice, the second time from L1: for its maximum, and for its weights, which are
// relative to that. Weights are float arithmetic and shifts of 64-bit lanes, about 27 vector
// instructions for 8 of them with AVX2, 8 more for those above a bracket, 9 to list what is in it.
#include "cpu/bracket_passes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/bracket_passes_simd.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cpu/passes.h"
#include "cpu/tile_vectors.h"

#ifdef FAIRDRAW_TARGET

HWY_BEFORE_NAMESPACE();
namespace fairdraw::cpu {
namespace HWY_NAMESPACE {
namespace {

using I32 = hn::RebindToSigned<F32>;
using I64 = hn::RebindToSigned<U64>;

/// A sum of weights, an accumulator each for even and odd lanes.
class WeightSum {
 public:
  HWY_INLINE WeightSum() : sums_{hn::Zero(U64()), hn::Zero(U64())} {}

  HWY_INLINE void add(const Weights& weights) {
    sums_ = {hn::Add(sums_.even, weights.even), hn::Add(sums_.odd, weights.odd)};
  }
  HWY_INLINE void add_where(hn::Mask<F32> mask, const Weights& weights) {
#if HWY_TARGET == HWY_AVX3
    // Masks are bits: those of even and of odd lanes.
    const std::uint32_t bits = mask.raw;
    const auto even = static_cast<__mmask8>(_pext_u32(bits, 0x5555U));
    const auto odd = static_cast<__mmask8>(_pext_u32(bits, 0xaaaaU));
    sums_.even.raw = _mm512_mask_add_epi64(sums_.even.raw, even, sums_.even.raw, weights.even.raw);
    sums_.odd.raw = _mm512_mask_add_epi64(sums_.odd.raw, odd, sums_.odd.raw, weights.odd.raw);
#else
    const U64 u64;
    // Each 64-bit lane gets the mask of one of its two values.
    const auto wide = hn::VecFromMask(F32(), mask);
    add({hn::And(weights.even, hn::BitCast(u64, hn::DupEven(wide))),
         hn::And(weights.odd, hn::BitCast(u64, hn::DupOdd(wide)))});
#endif
  }
  HWY_INLINE std::uint64_t total() const { return total_of(sums_); }

 private:
  Weights sums_;
};

/// The largest of a whole tile.
HWY_INLINE float maximum_of(const float* x) {
  const F32 f32;
  const std::size_t step = lanes();
  VecF chain0 = hn::LoadU(f32, x);
  VecF chain1 = hn::LoadU(f32, x + step);
  VecF chain2 = hn::LoadU(f32, x + 2 * step);
  VecF chain3 = hn::LoadU(f32, x + 3 * step);
  for (std::size_t i = 4 * step; i < kTileSize; i += 4 * step) {
    chain0 = hn::Max(chain0, hn::LoadU(f32, x + i));
    chain1 = hn::Max(chain1, hn::LoadU(f32, x + i + step));
    chain2 = hn::Max(chain2, hn::LoadU(f32, x + i + 2 * step));
    chain3 = hn::Max(chain3, hn::LoadU(f32, x + i + 3 * step));
  }
  return hn::GetLane(
      hn::MaxOfLanes(f32, hn::Max(hn::Max(chain0, chain1), hn::Max(chain2, chain3))));
}

struct TileSums {
  std::uint64_t total, above;
};

/// Sums and lists a tile whose values are all at or above bounds.from, or weigh nothing (kAll), or
/// not. kLists: some of its values are in the bracket or above; kAbove: some are above.
template <bool kAll, bool kLists, bool kAbove, class Rule>
HWY_INLINE TileSums measure_tile(const float* x, const Rule& rule, const BracketBounds& bounds,
                                 float*& list) {
  const F32 f32;
  const std::size_t step = lanes();
  const VecF from = hn::Set(f32, bounds.from);
  const VecF low = hn::Set(f32, bounds.low);
  const VecF high = hn::Set(f32, bounds.high);
  WeightSum total;
  WeightSum above_high;
  for (std::size_t i = 0; i < kTileSize; i += step) {
    const VecF value = hn::LoadU(f32, x + i);
    const Weights weights = weights_of(octaves_by(rule, value));
    kAll ? total.add(weights) : total.add_where(hn::Ge(value, from), weights);
    auto inside = hn::Ge(value, low);
    if constexpr (kAbove) {
      const auto above = hn::Gt(value, high);
      above_high.add_where(above, weights);
      inside = hn::AndNot(above, inside);
    }
    // Without a branch: it would be mispredicted where a vector in twenty has such a value, and
    // storing them all costs a tenth of the weights.
    if constexpr (kLists) list += store_compressed(value, inside, list);
  }
  return {total.total(), above_high.total()};
}

template <bool kAll, class Rule>
HWY_INLINE TileSums measure_by(const float* x, const Rule& rule, float maximum,
                               const BracketBounds& bounds, float*& list) {
  if (maximum > bounds.high) return measure_tile<kAll, true, true>(x, rule, bounds, list);
  if (maximum >= bounds.low) return measure_tile<kAll, true, false>(x, rule, bounds, list);
  return measure_tile<kAll, false, false>(x, rule, bounds, list);
}

/// A tile whose maximum is too large for float arithmetic: rare, so kept out of the loop.
template <bool kAll>
HWY_NOINLINE TileSums measure_in_double(const float* x, float scale, float maximum,
                                        const BracketBounds& bounds, float*& list) {
  return measure_by<kAll>(x, DoubleLogits(maximum, scale), maximum, bounds, list);
}

template <bool kFromProbs, bool kAll>
std::size_t measure_row(const float* x, std::size_t n, const TileRule& rule,
                        const BracketBounds& bounds, const MeasuredTiles& out) {
  const float none = kFromProbs ? 0.0F : -std::numeric_limits<float>::infinity();
  const float smallest =
      kFromProbs ? std::numeric_limits<float>::denorm_min() : -std::numeric_limits<float>::max();
  float* list = out.list;
  for (std::size_t tile = 0; tile * kTileSize < n; ++tile) {
    const std::size_t begin = tile * kTileSize;
    const float* values = x + begin;
    float padded[kTileSize];
    if (n - begin < kTileSize) {
      std::fill_n(padded, kTileSize, none);
      std::copy_n(values, n - begin, padded);
      values = padded;
    }
    out.run_begin[tile] = static_cast<std::uint32_t>(list - out.list);
    const float maximum = maximum_of(values);
    TileSums sums{};
    if (!(maximum >= smallest)) {
      // No allowed token.
    } else if constexpr (kFromProbs) {
      sums = measure_by<kAll>(values, Probabilities(maximum), maximum, bounds, list);
    } else if (HWY_LIKELY(float_octaves_are_exact(maximum, rule.scale))) {
      sums = measure_by<kAll>(values, FloatLogits(maximum, rule.scale), maximum, bounds, list);
    } else {
      sums = measure_in_double<kAll>(values, rule.scale, maximum, bounds, list);
    }
    out.keys[tile] = maximum >= smallest ? order_key(maximum) : kEmptyTileKey;
    out.sums[tile] = sums.total;
    out.above[tile] = sums.above;
  }
  return static_cast<std::size_t>(list - out.list);
}

template <bool kFromProbs>
std::size_t measure_rule(const float* x, std::size_t n, const TileRule& rule,
                         const BracketBounds& bounds, const MeasuredTiles& out) {
  // What lies below the smallest value that counts weighs nothing.
  const bool all = bounds.from <= (kFromProbs ? std::numeric_limits<float>::denorm_min()
                                              : -std::numeric_limits<float>::max());
  return all ? measure_row<kFromProbs, true>(x, n, rule, bounds, out)
             : measure_row<kFromProbs, false>(x, n, rule, bounds, out);
}

std::size_t measure(const float* x, std::size_t n, const TileRule& rule,
                    const BracketBounds& bounds, const MeasuredTiles& out) {
  return rule.from_probs ? measure_rule<true>(x, n, rule, bounds, out)
                         : measure_rule<false>(x, n, rule, bounds, out);
}

/// v 2^shift as doubles, of half a vector: m 2^(32 - s), truncated, times 2^shift.
HWY_INLINE hn::Vec<F64> doubles_of(hn::Vec<HalfI32> significand, hn::Vec<HalfI32> below,
                                   hn::Vec<F64> unit) {
  const F64 f64;
  const I64 i64;
  // From 64 on v is 0, and so is what is truncated here.
  const auto counts = hn::PromoteTo(i64, hn::Min(below, hn::Set(HalfI32(), 64)));
  const auto exponent = hn::Sub(hn::Set(i64, 1023 + kTileBits), counts);
  const auto power = hn::BitCast(f64, hn::ShiftLeft<52>(exponent));
  return hn::Mul(hn::Trunc(hn::Mul(hn::PromoteTo(f64, significand), power)), unit);
}

template <class Rule>
void probabilities_by(const float* x, std::size_t n, const Rule& rule, float low, int shift,
                      double total, float* out) {
  const F32 f32;
  const I32 i32;
  const HalfI32 half;
  const HalfF32 half_f32;
  const F64 f64;
  const std::size_t step = lanes();
  const VecF threshold = hn::Set(f32, low);
  const auto unit = hn::Set(f64, std::ldexp(1.0, shift));
  const auto divisor = hn::Set(f64, total);
  for (std::size_t i = 0; i < n; i += step) {
    const bool full = i + step <= n;
    const VecF value = full ? hn::LoadU(f32, x + i) : load_tail(x + i, n - i);
    const RelativeOctaves token = octaves_by(rule, value);
    const auto significand = hn::BitCast(i32, token.significand);
    // Counts are unsigned: a large one is one that weighs nothing.
    const auto below =
        hn::BitCast(i32, hn::Min(token.below, hn::Set(U32(), std::uint32_t{kTileOctaves})));
    const auto first =
        doubles_of(hn::LowerHalf(half, significand), hn::LowerHalf(half, below), unit);
    const auto second =
        doubles_of(hn::UpperHalf(half, significand), hn::UpperHalf(half, below), unit);
    const VecF quotients = hn::Combine(f32, hn::DemoteTo(half_f32, hn::Div(second, divisor)),
                                       hn::DemoteTo(half_f32, hn::Div(first, divisor)));
    // From 64 octaves on m means nothing: what is truncated to 0 may have been negative.
    const VecF result = hn::IfThenElseZero(hn::Ge(value, threshold), hn::Abs(quotients));
    if (full) {
      hn::StoreU(result, f32, out + i);
    } else {
      float padded[kMaxLanes];
      hn::StoreU(result, f32, padded);
      std::copy_n(padded, n - i, out + i);
    }
  }
}

void probabilities(const float* x, std::size_t n, const TileRule& rule, float maximum, float low,
                   int shift, double total, float* out) {
  if (rule.from_probs) {
    probabilities_by(x, n, Probabilities(maximum), low, shift, total, out);
  } else if (float_octaves_are_exact(maximum, rule.scale)) {
    probabilities_by(x, n, FloatLogits(maximum, rule.scale), low, shift, total, out);
  } else {
    probabilities_by(x, n, DoubleLogits(maximum, rule.scale), low, shift, total, out);
  }
}

}  // namespace

// One a target; simd_bracket_passes() below names them.
extern const BracketPasses kBracketPasses;
const BracketPasses kBracketPasses{measure, probabilities};

}  // namespace HWY_NAMESPACE
}  // namespace fairdraw::cpu
HWY_AFTER_NAMESPACE();

#endif  // FAIRDRAW_TARGET

#if HWY_ONCE

namespace fairdraw::cpu {

const BracketPasses* simd_bracket_passes(CpuTarget target) {
#if HWY_TARGETS & HWY_AVX2
  if (target == CpuTarget::avx2) return &N_AVX2::kBracketPasses;
#endif
#if HWY_TARGETS & HWY_AVX3
  if (target == CpuTarget::avx512) return &N_AVX3::kBracketPasses;
#endif
#if HWY_ARCH_ARM_A64
  if (target == CpuTarget::neon) return &HWY_STATIC_DISPATCH(kBracketPasses);
#endif
  return nullptr;
}

const BracketPasses& bracket_passes_for(CpuTarget target) {
  const BracketPasses* simd =
      simd_bracket_passes(target == CpuTarget::best ? best_target() : target);
  return simd == nullptr ? kScalarBracketPasses : *simd;
}

}  // namespace fairdraw::cpu

#endif  // HWY_ONCE
