// Implements the passes with the library Highway. The file is compiled once for AVX2, once for
// AVX-512, and for NEON if the compiler targets it. Targets without a fused multiply-add
// instruction (SSE4 and below) are left out.
//
// Only the headers of Highway are used. The target is selected in dispatch.cpp, because callers may
// name a target, and because users of the library then need no shared libhwy.
//
// The speed of all passes is limited, or nearly so, by reading the L2 cache.
#include "cpu/passes/passes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/passes/passes_simd.cpp"
#include <hwy/foreach_target.h>  // this header must be included before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "cpu/passes/vectors.h"

#ifdef FAIRDRAW_TARGET

HWY_BEFORE_NAMESPACE();
namespace fairdraw::cpu {
namespace HWY_NAMESPACE {
namespace {

static_assert(kGroups == kMaxLanes);

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

RowScan scan(const float* x, std::size_t n, float* group_max) {
  const F32 f32;
  const std::size_t step = lanes();
  VecF total = hn::Set(f32, kMinusInfinity);
  auto nan = hn::IsNaN(hn::Zero(f32));  // none yet
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    const float* block = x + begin;
    float padded[kBlock];
    if (n - begin < kBlock) {  // the last block
      std::fill_n(padded, kBlock, kMinusInfinity);
      std::copy_n(block, n - begin, padded);
      block = padded;
    }
    for (std::size_t v = 0; v < kGroups; v += step) {
      // The pass has four independent chains of max operations, so that their latency does not
      // limit the pass.
      const float* lane = block + v;
      VecF chain0 = hn::LoadU(f32, lane);
      VecF chain1 = hn::LoadU(f32, lane + kGroups);
      VecF chain2 = hn::LoadU(f32, lane + 2 * kGroups);
      VecF chain3 = hn::LoadU(f32, lane + 3 * kGroups);
      nan = hn::Or(nan, hn::Or(nan_in(chain0, chain1), nan_in(chain2, chain3)));
      for (std::size_t i = 4 * kGroups; i < kBlock; i += 4 * kGroups) {
        const VecF value0 = hn::LoadU(f32, lane + i);
        const VecF value1 = hn::LoadU(f32, lane + i + kGroups);
        const VecF value2 = hn::LoadU(f32, lane + i + 2 * kGroups);
        const VecF value3 = hn::LoadU(f32, lane + i + 3 * kGroups);
        nan = hn::Or(nan, hn::Or(nan_in(value0, value1), nan_in(value2, value3)));
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
  return {hn::GetLane(hn::MaxOfLanes(f32, total)), !hn::AllFalse(f32, nan)};
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

template <bool kBounded>
std::size_t collect_where(const float* x, std::size_t n, float low, float high, float* out) {
  const F32 f32;
  const std::size_t step = lanes();
  const VecF from = hn::Set(f32, low);
  const VecF to = hn::Set(f32, high);
  std::size_t count = 0;
  std::size_t i = 0;
  constexpr std::size_t kVectors = 4;
  for (; i + kVectors * step <= n; i += kVectors * step) {
    VecF values[kVectors];
    hn::Mask<F32> inside[kVectors];
    for (std::size_t j = 0; j < kVectors; ++j) {
      values[j] = hn::LoadU(f32, x + i + j * step);
      inside[j] = hn::Ge(values[j], from);
      if constexpr (kBounded) inside[j] = hn::And(inside[j], hn::Le(values[j], to));
    }
    count += store_compressed(values, inside, out + count);
  }
  for (; i < n; i += step) {
    // The rest of the vector is filled with NaN, which is never listed.
    const VecF value = HWY_LIKELY(i + step <= n) ? hn::LoadU(f32, x + i) : load_tail(x + i, n - i);
    auto inside = hn::Ge(value, from);
    if constexpr (kBounded) inside = hn::And(inside, hn::Le(value, to));
    count += store_compressed(value, inside, out + count);
  }
  return count;
}

std::size_t collect_many(const float* x, std::size_t n, float low, float high, float* out) {
  return high < std::numeric_limits<float>::max() ? collect_where<true>(x, n, low, high, out)
                                                  : collect_where<false>(x, n, low, high, out);
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
    hn::Mask<F32> inside[4];
    for (std::size_t j = 0; j < 4; ++j) inside[j] = hn::Ge(values[j], from);
    count += store_compressed(values, inside, out + count);
  }
  if (i == n) return count;
  return count +
         collect_many(x + i, n - i, low, std::numeric_limits<float>::infinity(), out + count);
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
  // SumOfLanes is not used, because with g++ it adds signed integers, and a sum of weights may
  // exceed 2^63.
  std::uint64_t lane[kGroups / 2];
  hn::StoreU(total, u64, lane);
  std::uint64_t result = std::accumulate(lane, lane + step, std::uint64_t{0});
  for (; i < n; ++i) result += x[i] >= low ? weight[i] : 0;
  return result;
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
      rest.max = std::max(rest.max, value);  // std::max keeps the left value if the right value is
                                             // NaN
      rest.has_nan |= value != value;
      out[begin + i] = ((word >> i) & 1U) != 0 ? value : banned;
    }
  }
  return {std::max(rest.max, hn::GetLane(hn::MaxOfLanes(f32, maximum))),
          rest.has_nan || !hn::AllFalse(f32, nan)};
}

/// Converts 16-bit floats of a Highway type (float16_t or bfloat16_t) to float32.
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

// Each target has one table, which simd_passes() below returns.
extern const Passes kPasses;
const Passes kPasses{scan,         range,           count_at_least, collect_many,
                     collect_few,  blocks_at_least, sum_listed,     mask_bits,
                     copy_allowed, from_float16,    from_bfloat16};

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
