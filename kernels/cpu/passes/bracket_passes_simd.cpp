// Implements the passes of bracket_passes.h with the library Highway. Like passes_simd.cpp, the
// file is compiled once for AVX2, once for AVX-512, and for NEON if the compiler targets it.
//
// Every tile is read twice, first to find its maximum, and then from the L1 cache to compute
// weights relative to this maximum. The faster sum for near tiles (near_sums.h) is tried first, as
// in tile_passes_simd.cpp. Each vector takes 3 more instructions to sum the values above a bracket,
// and 5 more to list the values in the bracket.
#include "cpu/passes/bracket_passes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/passes/bracket_passes_simd.cpp"
#include <hwy/foreach_target.h>  // this header must be included before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cpu/passes/near_sums.h"
#include "cpu/passes/passes.h"
#include "cpu/passes/tile_vectors.h"

#ifdef FAIRDRAW_TARGET

HWY_BEFORE_NAMESPACE();
namespace fairdraw::cpu {
namespace HWY_NAMESPACE {
namespace {

using I32 = hn::RebindToSigned<F32>;
using I64 = hn::RebindToSigned<U64>;

/// Returns the largest value of a whole tile.
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

/// Sums and lists the values of a tile. The argument kAll says that every value is at least
/// bounds.from or weighs 0. The argument kLists says that some values are in the bracket or above
/// the bracket, and kAbove says that some values are above the bracket. The type Rule is NearLogits
/// or WideTerms.
template <bool kAll, bool kLists, bool kAbove, class Rule>
HWY_INLINE TileSums measure_tile(const float* x, Rule& rule, const BracketBounds& bounds,
                                 float*& list) {
  const F32 f32;
  const std::size_t step = lanes();
  const VecF from = hn::Set(f32, bounds.from);
  const VecF low = hn::Set(f32, bounds.low);
  const VecF high = hn::Set(f32, bounds.high);
  VecU64 total = hn::Zero(U64());
  VecU64 total_above = hn::Zero(U64());
  for (const float* end = x + kTileSize; x != end;) {
    typename Rule::Sum part, part_above;
    for (const float* part_end = x + kPartTerms * step; x != part_end; x += kChains * step) {
      VecF values[kChains];
      typename Rule::Term terms[kChains];
      for (std::size_t j = 0; j < kChains; ++j) values[j] = hn::LoadU(f32, x + j * step);
      rule.weigh(values, terms);
      hn::Mask<F32> inside[kChains];
      for (std::size_t j = 0; j < kChains; ++j) {
        kAll ? part.add(terms[j]) : part.add_where(hn::Ge(values[j], from), terms[j]);
        inside[j] = hn::Ge(values[j], low);
        if constexpr (kAbove) {
          const auto above = hn::Gt(values[j], high);
          part_above.add_where(above, terms[j]);
          inside[j] = hn::AndNot(above, inside[j]);
        }
      }
      // The code has no branch, because the branch would be mispredicted if one of twenty vectors
      // has such a value; storing all vectors costs a tenth of the time that the weights take.
      if constexpr (kLists) list += store_compressed(values, inside, list);
    }
    total = hn::Add(total, part.total());
    if constexpr (kAbove) total_above = hn::Add(total_above, part_above.total());
  }
  return {sum_of_lanes(U64(), total), kAbove ? sum_of_lanes(U64(), total_above) : 0};
}

template <bool kAll, class Rule>
HWY_INLINE TileSums measure_by(const float* x, Rule& rule, float maximum,
                               const BracketBounds& bounds, float*& list) {
  if (maximum > bounds.high) return measure_tile<kAll, true, true>(x, rule, bounds, list);
  if (maximum >= bounds.low) return measure_tile<kAll, true, false>(x, rule, bounds, list);
  return measure_tile<kAll, false, false>(x, rule, bounds, list);
}

bool has_nan(const float* x) {
  auto nan = hn::IsNaN(hn::Zero(F32()));  // none yet
  for (std::size_t i = 0; i < kTileSize; i += 2 * lanes()) {
    nan = hn::Or(nan, nan_in(hn::LoadU(F32(), x + i), hn::LoadU(F32(), x + i + lanes())));
  }
  return !hn::AllFalse(F32(), nan);
}

/// Measures a tile that is not near (near_sums.h). The function is out of line, because such tiles
/// are rare.
template <bool kAll, class Rule>
HWY_NOINLINE TileSums measure_wide(const float* x, const Rule& rule, float maximum,
                                   const BracketBounds& bounds, float*& list) {
  WideTerms<Rule> terms(rule);
  return measure_by<kAll>(x, terms, maximum, bounds, list);
}

/// Measures a tile that has an allowed token and no value +inf. Only tiles that are not near are
/// searched for NaN, because a near tile has no NaN.
template <bool kFromProbs, bool kAll>
HWY_INLINE TileSums measure_any(const float* x, float maximum, [[maybe_unused]] float scale,
                                [[maybe_unused]] NearTiles& near_tiles, const BracketBounds& bounds,
                                float*& list, [[maybe_unused]] bool& nan) {
  if constexpr (kFromProbs) {
    return measure_wide<kAll>(x, Probabilities(maximum), maximum, bounds, list);
  } else {
    const bool in_float = float_octaves_are_exact(maximum, scale);
    if (HWY_LIKELY(in_float && near_tiles.tries())) {
      NearLogits terms(maximum, scale);
      float* const begin = list;
      const TileSums sums = measure_by<kAll>(x, terms, maximum, bounds, list);
      if (HWY_LIKELY(terms.all_near())) return sums;
      near_tiles.missed();
      list = begin;
    }
    nan |= has_nan(x);
    return in_float ? measure_wide<kAll>(x, FloatLogits(maximum, scale), maximum, bounds, list)
                    : measure_wide<kAll>(x, DoubleLogits(maximum, scale), maximum, bounds, list);
  }
}

template <bool kFromProbs, bool kAll>
Measured measure_row(const float* x, std::size_t n, const WeightRule& rule,
                     const BracketBounds& bounds, const MeasuredTiles& out) {
  const float none = kFromProbs ? 0.0F : -std::numeric_limits<float>::infinity();
  const float smallest =
      kFromProbs ? std::numeric_limits<float>::denorm_min() : -std::numeric_limits<float>::max();
  float* list = out.list;
  NearTiles near_tiles;
  bool nan = false;
  float padded[kTileSize];
  const auto read = [&](std::size_t begin) {
    if (n - begin >= kTileSize) return x + begin;
    std::fill_n(padded, kTileSize, none);
    std::copy_n(x + begin, n - begin, padded);
    return static_cast<const float*>(padded);
  };
  // The next tile is read to find its maximum before this tile is weighed, as in the index.
  const float* next = read(0);
  float next_maximum = maximum_of(next);
  for (std::size_t tile = 0; tile * kTileSize < n; ++tile) {
    const float* const values = next;
    const float maximum = next_maximum;
    if (const std::size_t after = (tile + 1) * kTileSize; after < n) {
      next = read(after);
      next_maximum = maximum_of(next);
    }
    out.run_begin[tile] = static_cast<std::uint32_t>(list - out.list);
    TileSums sums{};
    if (HWY_LIKELY(maximum >= smallest && maximum <= std::numeric_limits<float>::max())) {
      sums =
          measure_any<kFromProbs, kAll>(values, maximum, rule.scale, near_tiles, bounds, list, nan);
    } else if (!kFromProbs) {
      nan |= has_nan(values);
    }
    out.keys[tile] = maximum >= smallest ? order_key(maximum) : kEmptyTileKey;
    out.sums[tile] = sums.total;
    out.above[tile] = sums.above;
  }
  return {static_cast<std::size_t>(list - out.list), nan};
}

template <bool kFromProbs>
Measured measure_rule(const float* x, std::size_t n, const WeightRule& rule,
                      const BracketBounds& bounds, const MeasuredTiles& out) {
  // True if all values count, because values below the smallest allowed value have the weight 0.
  const bool all = bounds.from <= (kFromProbs ? std::numeric_limits<float>::denorm_min()
                                              : -std::numeric_limits<float>::max());
  return all ? measure_row<kFromProbs, true>(x, n, rule, bounds, out)
             : measure_row<kFromProbs, false>(x, n, rule, bounds, out);
}

Measured measure(const float* x, std::size_t n, const WeightRule& rule, const BracketBounds& bounds,
                 const MeasuredTiles& out) {
  return rule.from_probs ? measure_rule<true>(x, n, rule, bounds, out)
                         : measure_rule<false>(x, n, rule, bounds, out);
}

/// Returns the dividends m 2^(80 - below) for half of a vector.
HWY_INLINE hn::Vec<F64> dividends_of(hn::Vec<HalfI32> significand, hn::Vec<HalfI32> below) {
  const F64 f64;
  const I64 i64;
  const auto exponent =
      hn::Sub(hn::Set(i64, 1023 + kTileBits + kRowBits), hn::PromoteTo(i64, below));
  const auto power = hn::BitCast(f64, hn::ShiftLeft<52>(exponent));
  return hn::Mul(hn::PromoteTo(f64, significand), power);
}

template <class Rule>
void probabilities_by(const float* x, std::size_t n, const Rule& rule, float low, double total,
                      float* out) {
  const F32 f32;
  const I32 i32;
  const HalfI32 half;
  const HalfF32 half_f32;
  const std::size_t step = lanes();
  const VecF threshold = hn::Set(f32, low);
  const auto divisor = hn::Set(F64(), total);
  for (std::size_t i = 0; i < n; i += step) {
    const bool full = i + step <= n;
    const VecF value = full ? hn::LoadU(f32, x + i) : load_tail(x + i, n - i);
    const RelativeOctaves token = octaves_by(rule, value);
    const auto significand = hn::BitCast(i32, token.significand);
    // The numbers of octaves are unsigned, and every significand gives 0 from kWrittenOctaves
    // octaves on.
    const auto below =
        hn::BitCast(i32, hn::Min(token.below, hn::Set(U32(), std::uint32_t{kWrittenOctaves})));
    const auto first = dividends_of(hn::LowerHalf(half, significand), hn::LowerHalf(half, below));
    const auto second = dividends_of(hn::UpperHalf(half, significand), hn::UpperHalf(half, below));
    const VecF quotients = hn::Combine(f32, hn::DemoteTo(half_f32, hn::Div(second, divisor)),
                                       hn::DemoteTo(half_f32, hn::Div(first, divisor)));
    // At such distances, m has no meaning and may be negative, and a quotient that is rounded to 0
    // may be -0.
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

void probabilities(const float* x, std::size_t n, const WeightRule& rule, float maximum, float low,
                   double total, float* out) {
  if (rule.from_probs) {
    probabilities_by(x, n, Probabilities(maximum), low, total, out);
  } else if (float_octaves_are_exact(maximum, rule.scale)) {
    probabilities_by(x, n, FloatLogits(maximum, rule.scale), low, total, out);
  } else {
    probabilities_by(x, n, DoubleLogits(maximum, rule.scale), low, total, out);
  }
}

}  // namespace

// Each target has one table, which simd_bracket_passes() below returns.
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
