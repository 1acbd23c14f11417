// The passes of bracket_passes.h with Highway: compiled once for AVX2, once for AVX-512, and for
// NEON where the compiler targets it, as passes_simd.cpp is.
//
// A tile is read twice, the second time from L1: for its maximum, and for its weights, which are
// relative to that. Weights are float arithmetic and shifts of 64-bit lanes, about 27 vector
// instructions for 8 of them with AVX2. A tile whose maximum is too large for float arithmetic is
// measured by the definition, value by value: a branch a tile, taken for logits of millions.
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

#undef FAIRDRAW_TARGET
#if HWY_TARGET == HWY_AVX3
#define FAIRDRAW_TARGET avx512
#elif HWY_TARGET == HWY_AVX2
#define FAIRDRAW_TARGET avx2
#elif HWY_ARCH_ARM_A64 && HWY_TARGET == HWY_STATIC_TARGET  // NEON; vectors of SVE have no size
#define FAIRDRAW_TARGET neon
#endif

#ifdef FAIRDRAW_TARGET

HWY_BEFORE_NAMESPACE();
namespace fairdraw::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kWidest = 16;  // floats in a vector
using F32 = hn::CappedTag<float, kWidest>;
using U32 = hn::RebindToUnsigned<F32>;
using I32 = hn::RebindToSigned<F32>;
using U64 = hn::RepartitionToWide<U32>;
using HalfI32 = hn::Half<I32>;
using HalfF32 = hn::Half<F32>;
using F64 = hn::Rebind<double, HalfF32>;
using I64 = hn::RebindToSigned<U64>;
using VecF = hn::Vec<F32>;
using VecU32 = hn::Vec<U32>;
using VecU64 = hn::Vec<U64>;

HWY_INLINE std::size_t lanes() { return hn::Lanes(F32()); }

/// m and s of tile_weights.h for a vector of values.
struct Significands {
  VecU32 significand, below;
};

/// The rule of a row and, per tile, its maximum.
template <bool kFromProbs>
class TileWeights {
 public:
  explicit HWY_INLINE TileWeights(const TileRule& rule)
      : scale_(hn::Set(F32(), rule.scale)), top_(hn::Zero(U32())) {}

  HWY_INLINE void begin_tile(float maximum) {
    const U32 u32;
    if constexpr (kFromProbs) {
      top_ = exponent(hn::Set(F32(), maximum));
    } else {
      top_ = hn::BitCast(u32, origin(hn::Set(F32(), maximum)));
    }
  }

  HWY_INLINE Significands of(VecF x) const {
    const F32 f32;
    const U32 u32;
    if constexpr (kFromProbs) {
      const VecU32 exponent_field = exponent(x);
      const VecU32 above_one = hn::Sub(exponent_field, hn::Set(u32, 1));
      return {hn::Sub(magnitude(x), hn::ShiftLeft<23>(above_one)), hn::Sub(top_, exponent_field)};
    } else {
      const VecF sum = origin(x);
      const VecF r = hn::MulSub(x, scale_, hn::Sub(sum, hn::Set(f32, kOctaveOrigin)));
      VecF q = hn::Set(f32, 0x1.5bda58p-10F);
      q = hn::MulAdd(q, r, hn::Set(f32, 0x1.3ce8aep-7F));
      q = hn::MulAdd(q, r, hn::Set(f32, 0x1.c6b6d8p-5F));
      q = hn::MulAdd(q, r, hn::Set(f32, 0x1.ebf9c2p-3F));
      q = hn::MulAdd(q, r, hn::Set(f32, 0x1.62e42ap-1F));
      q = hn::MulAdd(q, r, hn::Set(f32, 1.5F));
      return {hn::Sub(hn::BitCast(u32, q), hn::Set(u32, 0x3f400000U)),
              hn::Sub(top_, hn::BitCast(u32, sum))};
    }
  }

 private:
  HWY_INLINE VecF origin(VecF x) const {
    return hn::MulAdd(x, scale_, hn::Set(F32(), kOctaveOrigin));
  }
  /// Bits without the sign: -0 is 0.
  static HWY_INLINE VecU32 magnitude(VecF x) {
    return hn::And(hn::BitCast(U32(), x), hn::Set(U32(), 0x7fffffffU));
  }
  /// The exponent's field, 1 for subnormals too.
  static HWY_INLINE VecU32 exponent(VecF x) {
    return hn::Max(hn::ShiftRight<23>(magnitude(x)), hn::Set(U32(), 1));
  }

  VecF scale_;
  VecU32 top_;
};

/// A sum of weights, an accumulator each for even and odd lanes.
class WeightSum {
 public:
  HWY_INLINE WeightSum() : even_(hn::Zero(U64())), odd_(hn::Zero(U64())) {}

  HWY_INLINE void add(VecU64 even, VecU64 odd) {
    even_ = hn::Add(even_, even);
    odd_ = hn::Add(odd_, odd);
  }
  HWY_INLINE void add_where(hn::Mask<F32> mask, VecU64 even, VecU64 odd) {
    const U64 u64;
    const auto wide = hn::VecFromMask(F32(), mask);
    // Each 64-bit lane has the mask of one of its two values.
    add(hn::And(even, hn::BitCast(u64, hn::DupEven(wide))),
        hn::And(odd, hn::BitCast(u64, hn::DupOdd(wide))));
  }
  HWY_INLINE std::uint64_t total() const {
    return hn::GetLane(hn::SumOfLanes(U64(), hn::Add(even_, odd_)));
  }

 private:
  VecU64 even_, odd_;
};

/// v of even and odd lanes.
HWY_INLINE void widen(const Significands& token, VecU64& even, VecU64& odd) {
  const U64 u64;
#if HWY_ARCH_ARM_A64
  // A vector shift reads one byte of its count; from 63 on nothing is left of 56 bits.
  const VecU32 below = hn::Min(token.below, hn::Set(U32(), 63));
#else
  const VecU32 below = token.below;  // a count of 64 or more gives 0
#endif
  const auto low_half = hn::Set(u64, 0xffffffffU);
  const auto significands = hn::BitCast(u64, token.significand);
  const auto counts = hn::BitCast(u64, below);
  even = hn::ShiftLeft<32>(significands) >> hn::And(counts, low_half);
  odd = hn::AndNot(low_half, significands) >> hn::ShiftRight<32>(counts);
}

#if HWY_TARGET == HWY_AVX2
/// Lane numbers of the set bits of a byte, one to a byte, lowest first.
struct CompressTable {
  std::uint64_t lanes_of[256] = {};
  constexpr CompressTable() {
    for (unsigned bits = 0; bits < 256; ++bits) {
      unsigned count = 0;
      for (unsigned lane = 0; lane < 8; ++lane) {
        if (((bits >> lane) & 1U) != 0) {
          lanes_of[bits] |= static_cast<std::uint64_t>(lane) << (8 * count++);
        }
      }
    }
  }
};
constexpr CompressTable kCompressTable;
#endif

/// Stores the values of a mask at `out`, a whole vector; returns how many.
HWY_INLINE std::size_t store_compressed(VecF value, hn::Mask<F32> inside, float* out) {
#if HWY_TARGET == HWY_AVX2
  // Highway 1.0.3 copies its table to the stack for every vector when compiled with GCC.
  const auto bits = static_cast<unsigned>(_mm256_movemask_ps(inside.raw));
  const __m128i bytes = _mm_cvtsi64_si128(static_cast<std::int64_t>(kCompressTable.lanes_of[bits]));
  _mm256_storeu_ps(out, _mm256_permutevar8x32_ps(value.raw, _mm256_cvtepu8_epi32(bytes)));
  return static_cast<std::size_t>(__builtin_popcount(bits));
#else
  // Compress in a register, then store all of it: Zen 4 is slow in compressing to memory.
  hn::StoreU(hn::Compress(value, inside), F32(), out);
  return hn::CountTrue(F32(), inside);
#endif
}

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

/// Sums and lists one tile, all of whose values are at or above bounds.from, or weigh nothing
/// (kAll), or not. kLists: some of its values are in the bracket or above; kAbove: some are above.
template <bool kFromProbs, bool kAll, bool kLists, bool kAbove>
HWY_INLINE TileSums measure_tile(const float* x, const TileWeights<kFromProbs>& weights,
                                 const BracketBounds& bounds, float*& list) {
  const F32 f32;
  const std::size_t step = lanes();
  const VecF from = hn::Set(f32, bounds.from);
  const VecF low = hn::Set(f32, bounds.low);
  const VecF high = hn::Set(f32, bounds.high);
  WeightSum total;
  WeightSum above_high;
  for (std::size_t i = 0; i < kTileSize; i += step) {
    const VecF value = hn::LoadU(f32, x + i);
    VecU64 even;
    VecU64 odd;
    widen(weights.of(value), even, odd);
    kAll ? total.add(even, odd) : total.add_where(hn::Ge(value, from), even, odd);
    if constexpr (kAbove) above_high.add_where(hn::Gt(value, high), even, odd);
    if constexpr (kLists) {
      // Without a branch: it would be mispredicted where a vector in twenty has such a value, and
      // storing them all costs a tenth of the weights.
      const auto inside = hn::And(hn::Ge(value, low), hn::Le(value, high));
      list += store_compressed(value, inside, list);
    }
  }
  return {total.total(), above_high.total()};
}

template <bool kFromProbs, bool kAll>
std::size_t measure_row(const float* x, std::size_t n, const TileRule& rule,
                        const BracketBounds& bounds, const MeasuredTiles& out) {
  const float none = kFromProbs ? 0.0F : -std::numeric_limits<float>::infinity();
  const float smallest =
      kFromProbs ? std::numeric_limits<float>::denorm_min() : -std::numeric_limits<float>::max();
  TileWeights<kFromProbs> weights(rule);
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
    if (!(maximum >= smallest)) {
      out.keys[tile] = kEmptyTileKey;
      out.sums[tile] = out.above[tile] = 0;
      continue;
    }
    if (!kFromProbs && HWY_UNLIKELY(!float_octaves_are_exact(maximum, rule.scale))) {
      const std::uint32_t run_begin = out.run_begin[tile];
      const MeasuredTiles one{out.keys + tile, out.sums + tile, out.above + tile,
                              out.run_begin + tile, list};
      list += kScalarBracketPasses.measure(values, kTileSize, rule, bounds, one);
      out.run_begin[tile] = run_begin;
      continue;
    }
    weights.begin_tile(maximum);
    const TileSums sums =
        maximum > bounds.high
            ? measure_tile<kFromProbs, kAll, true, true>(values, weights, bounds, list)
        : maximum >= bounds.low
            ? measure_tile<kFromProbs, kAll, true, false>(values, weights, bounds, list)
            : measure_tile<kFromProbs, kAll, false, false>(values, weights, bounds, list);
    out.keys[tile] = order_key(maximum);
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

std::size_t collect_many(const float* x, std::size_t n, float low, float high, float* out) {
  const F32 f32;
  const std::size_t step = lanes();
  const VecF from = hn::Set(f32, low);
  const VecF to = hn::Set(f32, high);
  std::size_t count = 0;
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    const VecF value = hn::LoadU(f32, x + i);
    const auto inside = hn::And(hn::Ge(value, from), hn::Le(value, to));
    count += store_compressed(value, inside, out + count);
  }
  for (; i < n; ++i) {
    if (x[i] >= low && x[i] <= high) out[count++] = x[i];
  }
  return count;
}

std::size_t collect_few(const float* x, std::size_t n, float low, float* out) {
  const F32 f32;
  const std::size_t step = lanes();
  const VecF from = hn::Set(f32, low);
  std::size_t count = 0;
  std::size_t i = 0;
  for (; i + 4 * step <= n; i += 4 * step) {
    const VecF values[4] = {hn::LoadU(f32, x + i), hn::LoadU(f32, x + i + step),
                            hn::LoadU(f32, x + i + 2 * step), hn::LoadU(f32, x + i + 3 * step)};
    const VecF largest = hn::Max(hn::Max(values[0], values[1]), hn::Max(values[2], values[3]));
    if (HWY_LIKELY(hn::AllFalse(f32, hn::Ge(largest, from)))) continue;
    for (const VecF& value : values) {
      count += store_compressed(value, hn::Ge(value, from), out + count);
    }
  }
  return count +
         collect_many(x + i, n - i, low, std::numeric_limits<float>::infinity(), out + count);
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

template <bool kFromProbs>
void probabilities_rule(const float* x, std::size_t n, const TileRule& rule, float maximum,
                        float low, int shift, double total, float* out) {
  const F32 f32;
  const I32 i32;
  const HalfI32 half;
  const HalfF32 half_f32;
  const F64 f64;
  const std::size_t step = lanes();
  TileWeights<kFromProbs> weights(rule);
  weights.begin_tile(maximum);
  const VecF threshold = hn::Set(f32, low);
  const auto unit = hn::Set(f64, std::ldexp(1.0, shift));
  const auto divisor = hn::Set(f64, total);
  for (std::size_t i = 0; i < n; i += step) {
    float padded[kWidest] = {};
    const bool full = i + step <= n;
    if (!full) std::copy_n(x + i, n - i, padded);
    const VecF value = hn::LoadU(f32, full ? x + i : padded);
    const Significands token = weights.of(value);
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
      hn::StoreU(result, f32, padded);
      std::copy_n(padded, n - i, out + i);
    }
  }
}

void probabilities(const float* x, std::size_t n, const TileRule& rule, float maximum, float low,
                   int shift, double total, float* out) {
  if (rule.from_probs) {
    probabilities_rule<true>(x, n, rule, maximum, low, shift, total, out);
  } else if (float_octaves_are_exact(maximum, rule.scale)) {
    probabilities_rule<false>(x, n, rule, maximum, low, shift, total, out);
  } else {
    kScalarBracketPasses.probabilities(x, n, rule, maximum, low, shift, total, out);
  }
}

}  // namespace

// One a target; simd_bracket_passes() below names them.
extern const BracketPasses kBracketPasses;
const BracketPasses kBracketPasses{measure, collect_many, collect_few, probabilities};

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
