// The passes with Highway: compiled once for AVX2, once for AVX-512, and for NEON where the
// compiler targets it. Targets without a fused multiply-add (SSE4 and below) are left out.
//
// Highway is used from its headers alone: which target runs is decided by dispatch.cpp, because
// callers may ask for one by name, and users of the library then need no shared libhwy.
//
// The cost is that of the weights: about 17 vector instructions for 16 weights with AVX-512
// (one conversion from float to uint64 for 8 of them), about 40 with AVX2. Everything else is
// bound by reading L2.
#include "cpu/passes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/passes_simd.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "common/exp2fix.h"

#undef FAIRDRAW_TARGET
#undef FAIRDRAW_IS_AVX512
#if HWY_TARGET == HWY_AVX3
#define FAIRDRAW_TARGET avx512
#define FAIRDRAW_IS_AVX512 1
#elif HWY_TARGET == HWY_AVX2
#define FAIRDRAW_TARGET avx2
#define FAIRDRAW_IS_AVX512 0
#elif HWY_ARCH_ARM_A64 && HWY_TARGET == HWY_STATIC_TARGET  // NEON; vectors of SVE have no size
#define FAIRDRAW_TARGET neon
#define FAIRDRAW_IS_AVX512 0
#endif

#ifdef FAIRDRAW_TARGET

HWY_BEFORE_NAMESPACE();
namespace fairdraw::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// CappedTag keeps scalable vectors at the group width.
using F32 = hn::CappedTag<float, kGroups>;
using U32 = hn::RebindToUnsigned<F32>;
using I32 = hn::RebindToSigned<F32>;
using HalfF32 = hn::Half<F32>;
using F64 = hn::Rebind<double, HalfF32>;
using U64 = hn::RebindToUnsigned<F64>;
using VecF = hn::Vec<F32>;
using VecU64 = hn::Vec<U64>;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
/// Adding a double w in [0, 2^52) to 2^52 puts w into the low bits of the sum.
constexpr double kIntegerMagic = 0x1p52;
constexpr std::uint64_t kIntegerMask = (std::uint64_t{1} << 52) - 1;

HWY_INLINE std::size_t lanes() { return hn::Lanes(F32()); }

/// Loads n < lanes() values, the rest -inf (weight 0, below every threshold).
HWY_INLINE VecF load_tail(const float* x, std::size_t n) {
  float padded[kGroups];
  std::fill_n(padded, kGroups, kMinusInfinity);
  std::copy_n(x, n, padded);
  return hn::LoadU(F32(), padded);
}

/// The rule with its scalars in vectors.
struct VectorRule {
  explicit HWY_INLINE VectorRule(const WeightRule& rule)
      : shift(hn::Set(F32(), rule.shift)),
        scale(hn::Set(F32(), rule.scale)),
        scale2(hn::Set(F32(), rule.scale2)) {}
  VecF shift, scale, scale2;
};

/// Weights before truncation, floats in [0, 2^40]: exp2_scaled of exp2fix.h, or probabilities.
template <bool kFromProbs>
HWY_INLINE VecF scaled_weight(VecF x, const VectorRule& rule) {
  const F32 f32;
  if constexpr (kFromProbs) {
    return hn::Mul(hn::Mul(x, rule.scale), rule.scale2);
  } else {
    const VecF y = hn::Mul(hn::Sub(x, rule.shift), rule.scale);
    const VecF octaves = hn::Max(y, hn::Set(f32, kSmallestOctave));
    const VecF whole = hn::Floor(octaves);
    const VecF fraction = hn::Sub(octaves, whole);
    // Coefficients times 2^40: every product and sum is the specified one times 2^40, exactly.
    constexpr float kUnit = static_cast<float>(kLargestWeight);
    VecF power = hn::Set(f32, kUnit * kExp2Coefficients[5]);
    power = hn::MulAdd(power, fraction, hn::Set(f32, kUnit * kExp2Coefficients[4]));
    power = hn::MulAdd(power, fraction, hn::Set(f32, kUnit * kExp2Coefficients[3]));
    power = hn::MulAdd(power, fraction, hn::Set(f32, kUnit * kExp2Coefficients[2]));
    power = hn::MulAdd(power, fraction, hn::Set(f32, kUnit * kExp2Coefficients[1]));
    power = hn::MulAdd(power, fraction, hn::Set(f32, kUnit * kExp2Coefficients[0]));
#if FAIRDRAW_IS_AVX512
    return VecF{_mm512_scalef_ps(power.raw, whole.raw)};
#else
    const I32 i32;
    return hn::BitCast(
        f32, hn::Add(hn::BitCast(i32, power), hn::ShiftLeft<23>(hn::ConvertTo(i32, whole))));
#endif
  }
}

/// Truncates 2 * Lanes(U64) weights.
HWY_INLINE void truncate(VecF scaled, VecU64& low, VecU64& high) {
#if FAIRDRAW_IS_AVX512
  low = VecU64{_mm512_cvttps_epu64(_mm512_castps512_ps256(scaled.raw))};
  high = VecU64{_mm512_cvttps_epu64(_mm512_extractf32x8_ps(scaled.raw, 1))};
#else
  const F64 f64;
  const U64 u64;
  const auto magic = hn::Set(f64, kIntegerMagic);
  const auto mask = hn::Set(u64, kIntegerMask);
  const auto low_float = hn::Trunc(hn::PromoteTo(f64, hn::LowerHalf(HalfF32(), scaled)));
  const auto high_float = hn::Trunc(hn::PromoteTo(f64, hn::UpperHalf(HalfF32(), scaled)));
  low = hn::And(hn::BitCast(u64, hn::Add(low_float, magic)), mask);
  high = hn::And(hn::BitCast(u64, hn::Add(high_float, magic)), mask);
#endif
}

/// Whether any of the values seen was NaN.
class NanWatch {
 public:
#if FAIRDRAW_IS_AVX512
  HWY_INLINE NanWatch() {}
#else
  HWY_INLINE NanWatch() : seen_(hn::IsNaN(hn::Zero(F32()))) {}
#endif
  HWY_INLINE void see(VecF a, VecF b, VecF c, VecF d) {
#if FAIRDRAW_IS_AVX512
    // One comparison answers for two vectors.
    seen_ |= static_cast<unsigned>(_mm512_cmp_ps_mask(a.raw, b.raw, _CMP_UNORD_Q)) |
             static_cast<unsigned>(_mm512_cmp_ps_mask(c.raw, d.raw, _CMP_UNORD_Q));
#else
    seen_ = hn::Or(seen_,
                   hn::Or(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), hn::Or(hn::IsNaN(c), hn::IsNaN(d))));
#endif
  }
#if FAIRDRAW_IS_AVX512
  HWY_INLINE bool any() const { return seen_ != 0; }

 private:
  unsigned seen_ = 0;
#else
  HWY_INLINE bool any() const { return !hn::AllFalse(F32(), seen_); }

 private:
  hn::Mask<F32> seen_;
#endif
};

RowScan scan(const float* x, std::size_t n, float* group_max) {
  const F32 f32;
  const std::size_t step = lanes();
  VecF total = hn::Set(f32, kMinusInfinity);
  NanWatch nan;
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    const float* block = x + begin;
    float padded[kBlock];
    if (n - begin < kBlock) {  // the last block
      std::fill_n(padded, kBlock, kMinusInfinity);
      std::copy_n(block, n - begin, padded);
      block = padded;
    }
    for (std::size_t v = 0; v < kGroups; v += step) {
      // Four chains, so that the latency of max does not bound the pass.
      const float* lane = block + v;
      VecF chain0 = hn::LoadU(f32, lane);
      VecF chain1 = hn::LoadU(f32, lane + kGroups);
      VecF chain2 = hn::LoadU(f32, lane + 2 * kGroups);
      VecF chain3 = hn::LoadU(f32, lane + 3 * kGroups);
      nan.see(chain0, chain1, chain2, chain3);
      for (std::size_t i = 4 * kGroups; i < kBlock; i += 4 * kGroups) {
        const VecF value0 = hn::LoadU(f32, lane + i);
        const VecF value1 = hn::LoadU(f32, lane + i + kGroups);
        const VecF value2 = hn::LoadU(f32, lane + i + 2 * kGroups);
        const VecF value3 = hn::LoadU(f32, lane + i + 3 * kGroups);
        nan.see(value0, value1, value2, value3);
        chain0 = hn::Max(chain0, value0);
        chain1 = hn::Max(chain1, value1);
        chain2 = hn::Max(chain2, value2);
        chain3 = hn::Max(chain3, value3);
      }
      const VecF maximum = hn::Max(hn::Max(chain0, chain1), hn::Max(chain2, chain3));
      total = hn::Max(total, maximum);
      if (group_max != nullptr) hn::StoreU(maximum, f32, group_max + v);
    }
    if (group_max != nullptr) group_max += kGroups;
  }
  return {hn::GetLane(hn::MaxOfLanes(f32, total)), nan.any()};
}

Range range(const float* x, std::size_t n) {
  const F32 f32;
  const std::size_t step = lanes();
  VecF low = hn::Set(f32, x[0]);
  VecF high = low;
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    const VecF value = hn::LoadU(f32, x + i);
    low = hn::Min(low, value);
    high = hn::Max(high, value);
  }
  Range result{hn::GetLane(hn::MinOfLanes(f32, low)), hn::GetLane(hn::MaxOfLanes(f32, high))};
  for (; i < n; ++i) {
    result.min = std::min(result.min, x[i]);
    result.max = std::max(result.max, x[i]);
  }
  return result;
}

std::size_t count_at_least(const float* x, std::size_t n, float pivot) {
  const F32 f32;
  const std::size_t step = lanes();
  const VecF low = hn::Set(f32, pivot);
  std::size_t count = 0;
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    count += hn::CountTrue(f32, hn::Ge(hn::LoadU(f32, x + i), low));
  }
  for (; i < n; ++i) count += x[i] >= pivot ? 1 : 0;
  return count;
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
  const F32 f32;
#if HWY_TARGET == HWY_AVX2
  // Highway 1.0.3 copies its table to the stack for every vector when compiled with GCC.
  const auto bits = static_cast<unsigned>(_mm256_movemask_ps(inside.raw));
  const __m128i bytes = _mm_cvtsi64_si128(static_cast<std::int64_t>(kCompressTable.lanes_of[bits]));
  _mm256_storeu_ps(out, _mm256_permutevar8x32_ps(value.raw, _mm256_cvtepu8_epi32(bytes)));
  static_cast<void>(f32);
  return static_cast<std::size_t>(__builtin_popcount(bits));
#else
  // Compress in a register, then store all of it: Zen 4 is slow in compressing to memory.
  hn::StoreU(hn::Compress(value, inside), f32, out);
  return hn::CountTrue(f32, inside);
#endif
}

std::size_t collect(const float* x, std::size_t n, float low, float high, float* out) {
  const F32 f32;
  const std::size_t step = lanes();
  const VecF from = hn::Set(f32, low);
  const VecF to = hn::Set(f32, high);
  std::size_t count = 0;
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    const VecF value = hn::LoadU(f32, x + i);
    const auto inside = hn::And(hn::Ge(value, from), hn::Le(value, to));
    // Most vectors have nothing to store; up to one value in ten the branch pays (Zen 4).
    if (!hn::AllFalse(f32, inside)) count += store_compressed(value, inside, out + count);
  }
  for (; i < n; ++i) {
    if (x[i] >= low && x[i] <= high) out[count++] = x[i];
  }
  return count;
}

std::size_t blocks_at_least(const float* group_max, std::size_t blocks, float pivot,
                            std::uint32_t* out) {
  const F32 f32;
  const std::size_t step = lanes();
  const VecF low = hn::Set(f32, pivot);
  std::size_t count = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    auto any = hn::Ge(hn::LoadU(f32, group_max + b * kGroups), low);
    for (std::size_t i = step; i < kGroups; i += step) {
      any = hn::Or(any, hn::Ge(hn::LoadU(f32, group_max + b * kGroups + i), low));
    }
    out[count] = static_cast<std::uint32_t>(b);
    count += hn::AllFalse(f32, any) ? 0 : 1;
  }
  return count;
}

template <bool kFromProbs>
void weigh_rule(const float* x, std::size_t n, const WeightRule& rule, float low,
                std::uint64_t* out) {
  const F32 f32;
  const U64 u64;
  const std::size_t step = lanes();
  const VectorRule vector_rule(rule);
  const VecF threshold = hn::Set(f32, low);
  for (std::size_t i = 0; i < n; i += step) {
    const bool full = i + step <= n;
    const VecF value = full ? hn::LoadU(f32, x + i) : load_tail(x + i, n - i);
    VecU64 first;
    VecU64 second;
    truncate(
        hn::IfThenElseZero(hn::Ge(value, threshold), scaled_weight<kFromProbs>(value, vector_rule)),
        first, second);
    if (full) {
      hn::StoreU(first, u64, out + i);
      hn::StoreU(second, u64, out + i + step / 2);
    } else {
      std::uint64_t padded[kGroups];
      hn::StoreU(first, u64, padded);
      hn::StoreU(second, u64, padded + step / 2);
      std::copy_n(padded, n - i, out + i);
    }
  }
}

void weigh(const float* x, std::size_t n, const WeightRule& rule, float low, std::uint64_t* out) {
  rule.from_probs ? weigh_rule<true>(x, n, rule, low, out)
                  : weigh_rule<false>(x, n, rule, low, out);
}

/// A sum of weights, an accumulator for each half of a vector.
struct WeightSum {
  VecU64 low, high;

  HWY_INLINE WeightSum() { low = high = hn::Zero(U64()); }

  HWY_INLINE void add(VecU64 first, VecU64 second) {
    low = hn::Add(low, first);
    high = hn::Add(high, second);
  }

  /// Adds the weights of the lanes that `mask` has set.
  HWY_INLINE void add_where(hn::Mask<F32> mask, VecU64 first, VecU64 second) {
#if FAIRDRAW_IS_AVX512
    const unsigned bits = mask.raw;
    low.raw = _mm512_mask_add_epi64(low.raw, static_cast<__mmask8>(bits), low.raw, first.raw);
    high.raw =
        _mm512_mask_add_epi64(high.raw, static_cast<__mmask8>(bits >> 8), high.raw, second.raw);
#else
    // All ones or all zeros, widened with the sign.
    const U64 u64;
    const hn::RebindToSigned<U64> i64;
    const hn::Half<I32> half;
    const auto wide = hn::BitCast(I32(), hn::VecFromMask(F32(), mask));
    const auto first_mask = hn::PromoteTo(i64, hn::LowerHalf(half, wide));
    const auto second_mask = hn::PromoteTo(i64, hn::UpperHalf(half, wide));
    add(hn::And(first, hn::BitCast(u64, first_mask)),
        hn::And(second, hn::BitCast(u64, second_mask)));
#endif
  }

  HWY_INLINE std::uint64_t total() const {
    return hn::GetLane(hn::SumOfLanes(U64(), hn::Add(low, high)));
  }
};

template <bool kFromProbs>
std::uint64_t sum_rule(const float* x, std::size_t n, const WeightRule& rule, float low) {
  const F32 f32;
  const std::size_t step = lanes();
  const VectorRule vector_rule(rule);
  const VecF threshold = hn::Set(f32, low);
  WeightSum sum;
  for (std::size_t i = 0; i < n; i += step) {
    const VecF value = HWY_LIKELY(i + step <= n) ? hn::LoadU(f32, x + i) : load_tail(x + i, n - i);
    VecU64 first;
    VecU64 second;
    truncate(
        hn::IfThenElseZero(hn::Ge(value, threshold), scaled_weight<kFromProbs>(value, vector_rule)),
        first, second);
    sum.add(first, second);
  }
  return sum.total();
}

std::uint64_t sum(const float* x, std::size_t n, const WeightRule& rule, float low) {
  return rule.from_probs ? sum_rule<true>(x, n, rule, low) : sum_rule<false>(x, n, rule, low);
}

template <bool kFromProbs, bool kDense>
BracketSums measure_rule(const float* x, std::size_t n, const WeightRule& rule, float from,
                         float low, float high, float* out) {
  const F32 f32;
  const std::size_t step = lanes();
  const VectorRule vector_rule(rule);
  const VecF threshold = hn::Set(f32, from);
  const VecF bracket_low = hn::Set(f32, low);
  const VecF bracket_high = hn::Set(f32, high);
  WeightSum total;
  WeightSum up_to_high;
  std::size_t inside = 0;
  for (std::size_t i = 0; i < n; i += step) {
    const VecF value = HWY_LIKELY(i + step <= n) ? hn::LoadU(f32, x + i) : load_tail(x + i, n - i);
    VecU64 first;
    VecU64 second;
    truncate(
        hn::IfThenElseZero(hn::Ge(value, threshold), scaled_weight<kFromProbs>(value, vector_rule)),
        first, second);
    total.add(first, second);
    const auto not_above = hn::Le(value, bracket_high);
    up_to_high.add_where(not_above, first, second);
#if FAIRDRAW_IS_AVX512
    const hn::Mask<F32> in_bracket{
        _mm512_mask_cmp_ps_mask(not_above.raw, value.raw, bracket_low.raw, _CMP_GE_OQ)};
#else
    const auto in_bracket = hn::And(not_above, hn::Ge(value, bracket_low));
#endif
    if (kDense || !hn::AllFalse(f32, in_bracket)) {
      inside += store_compressed(value, in_bracket, out + inside);
    }
  }
  return {total.total(), total.total() - up_to_high.total(), inside};
}

BracketSums measure(const float* x, std::size_t n, const WeightRule& rule, float from, float low,
                    float high, bool dense, float* out) {
  if (rule.from_probs) {
    return dense ? measure_rule<true, true>(x, n, rule, from, low, high, out)
                 : measure_rule<true, false>(x, n, rule, from, low, high, out);
  }
  return dense ? measure_rule<false, true>(x, n, rule, from, low, high, out)
               : measure_rule<false, false>(x, n, rule, from, low, high, out);
}

std::uint64_t sum_listed(const float* x, const std::uint64_t* weight, std::size_t n, float low) {
  const HalfF32 half;
  const F64 f64;
  const U64 u64;
  const std::size_t step = lanes() / 2;
  const auto limit = hn::Set(f64, static_cast<double>(low));
  auto total = hn::Zero(u64);
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    const auto value = hn::PromoteTo(f64, hn::LoadU(half, x + i));
    total = hn::Add(total, hn::IfThenElseZero(hn::RebindMask(u64, hn::Ge(value, limit)),
                                              hn::LoadU(u64, weight + i)));
  }
  // Not SumOfLanes: g++ adds with signed integers there, and a sum of weights may pass 2^63.
  std::uint64_t lane[kGroups / 2];
  hn::StoreU(total, u64, lane);
  std::uint64_t result = std::accumulate(lane, lane + step, std::uint64_t{0});
  for (; i < n; ++i) result += x[i] >= low ? weight[i] : 0;
  return result;
}

template <bool kFromProbs>
void probabilities_rule(const float* x, std::size_t n, const WeightRule& rule, float low,
                        double total, float* out) {
  const F32 f32;
  const HalfF32 half;
  const F64 f64;
  const std::size_t step = lanes();
  const VectorRule vector_rule(rule);
  const VecF threshold = hn::Set(f32, low);
  const auto divisor = hn::Set(f64, total);
  for (std::size_t i = 0; i < n; i += step) {
    const bool full = i + step <= n;
    const VecF value = full ? hn::LoadU(f32, x + i) : load_tail(x + i, n - i);
    const VecF scaled =
        hn::IfThenElseZero(hn::Ge(value, threshold), scaled_weight<kFromProbs>(value, vector_rule));
    // Weights are below 2^53: the truncated double is the integer.
    const auto first = hn::Trunc(hn::PromoteTo(f64, hn::LowerHalf(half, scaled)));
    const auto second = hn::Trunc(hn::PromoteTo(f64, hn::UpperHalf(half, scaled)));
    const VecF result = hn::Combine(f32, hn::DemoteTo(half, hn::Div(second, divisor)),
                                    hn::DemoteTo(half, hn::Div(first, divisor)));
    if (full) {
      hn::StoreU(result, f32, out + i);
    } else {
      float padded[kGroups];
      hn::StoreU(result, f32, padded);
      std::copy_n(padded, n - i, out + i);
    }
  }
}

void probabilities(const float* x, std::size_t n, const WeightRule& rule, float low, double total,
                   float* out) {
  rule.from_probs ? probabilities_rule<true>(x, n, rule, low, total, out)
                  : probabilities_rule<false>(x, n, rule, low, total, out);
}

void mask_bits(const float* x, std::size_t n, float low, std::uint32_t* out) {
  const F32 f32;
  const std::size_t step = lanes();
  const VecF threshold = hn::Set(f32, low);
  for (std::size_t begin = 0; begin < n; begin += 32) {
    const std::size_t length = std::min<std::size_t>(32, n - begin);
    std::uint32_t word = 0;
    std::size_t i = 0;
    for (; i + step <= length; i += step) {
      std::uint8_t bytes[8] = {};
      hn::StoreMaskBits(f32, hn::Ge(hn::LoadU(f32, x + begin + i), threshold), bytes);
      word |= (bytes[0] | (static_cast<std::uint32_t>(bytes[1]) << 8)) << i;
    }
    for (; i < length; ++i) word |= (x[begin + i] >= low ? 1U : 0U) << i;
    out[begin / 32] = word;
  }
}

RowScan copy_allowed(const float* x, std::size_t n, const std::uint32_t* allowed, float banned,
                     float* out) {
  const F32 f32;
  const VecF other = hn::Set(f32, banned);
  const std::size_t step = lanes();
  VecF maximum = hn::Set(f32, kMinusInfinity);
  auto nan = hn::IsNaN(hn::Zero(f32));  // none yet
  RowScan rest{kMinusInfinity, false};
  for (std::size_t begin = 0; begin < n; begin += 32) {
    const std::uint32_t word = allowed == nullptr ? 0xffffffffU : allowed[begin / 32];
    const std::size_t length = std::min<std::size_t>(32, n - begin);
    std::size_t i = 0;
    for (; i + step <= length; i += step) {
      const std::uint64_t bits = word >> i;  // LoadMaskBits may read 8 bytes
      std::uint8_t bytes[sizeof(bits)];
      std::memcpy(bytes, &bits, sizeof(bits));
      const VecF value = hn::LoadU(f32, x + begin + i);
      maximum = hn::Max(maximum, value);
      nan = hn::Or(nan, hn::IsNaN(value));
      hn::StoreU(hn::IfThenElse(hn::LoadMaskBits(f32, bytes), value, other), f32, out + begin + i);
    }
    for (; i < length; ++i) {
      const float value = x[begin + i];
      rest.max = std::max(rest.max, value);  // keeps the left one on NaN
      rest.has_nan |= value != value;
      out[begin + i] = ((word >> i) & 1U) != 0 ? value : banned;
    }
  }
  return {std::max(rest.max, hn::GetLane(hn::MaxOfLanes(f32, maximum))),
          rest.has_nan || !hn::AllFalse(f32, nan)};
}

/// Widens 16-bit floats of a Highway type (float16_t, bfloat16_t).
template <class Narrow>
void widen(const std::uint16_t* in, std::size_t n, float* out) {
  const F32 f32;
  const hn::Rebind<Narrow, F32> narrow;
  const hn::Rebind<std::uint16_t, F32> bits;
  const std::size_t step = lanes();
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    hn::StoreU(hn::PromoteTo(f32, hn::BitCast(narrow, hn::LoadU(bits, in + i))), f32, out + i);
  }
  if (i < n) {
    std::uint16_t padded_in[kGroups] = {};
    float padded_out[kGroups];
    std::copy_n(in + i, n - i, padded_in);
    hn::StoreU(hn::PromoteTo(f32, hn::BitCast(narrow, hn::LoadU(bits, padded_in))), f32,
               padded_out);
    std::copy_n(padded_out, n - i, out + i);
  }
}

void from_float16(const std::uint16_t* in, std::size_t n, float* out) {
  widen<hwy::float16_t>(in, n, out);
}

void from_bfloat16(const std::uint16_t* in, std::size_t n, float* out) {
  widen<hwy::bfloat16_t>(in, n, out);
}

}  // namespace

// One a target; simd_passes() below names them.
extern const Passes kPasses;
const Passes kPasses = Passes{
    scan,    range,      count_at_least, collect,   blocks_at_least, weigh,        sum,
    measure, sum_listed, probabilities,  mask_bits, copy_allowed,    from_float16, from_bfloat16};

}  // namespace HWY_NAMESPACE
}  // namespace fairdraw::cpu
HWY_AFTER_NAMESPACE();

#endif  // FAIRDRAW_TARGET

#if HWY_ONCE

namespace fairdraw::cpu {

const Passes* simd_passes(CpuTarget target) {
#if HWY_TARGETS & HWY_AVX2
  if (target == CpuTarget::avx2) return &N_AVX2::kPasses;
#endif
#if HWY_TARGETS & HWY_AVX3
  if (target == CpuTarget::avx512) return &N_AVX3::kPasses;
#endif
#if HWY_ARCH_ARM_A64
  if (target == CpuTarget::neon) return &HWY_STATIC_DISPATCH(kPasses);
#endif
  return nullptr;
}

}  // namespace fairdraw::cpu

#endif  // HWY_ONCE
