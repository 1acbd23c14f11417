// Basics of all vector passes: the types of vectors, and operations that Highway lacks.
//
// The header is included in the same way as Highway's own headers: after foreach_target.h and
// highway.h, once per target. The header defines FAIRDRAW_TARGET for targets that the library
// supports, and nothing for other targets.
#if defined(FAIRDRAW_CPU_VECTORS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FAIRDRAW_CPU_VECTORS_H
#undef FAIRDRAW_CPU_VECTORS_H
#else
#define FAIRDRAW_CPU_VECTORS_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#undef FAIRDRAW_TARGET
#if HWY_TARGET == HWY_AVX3
#define FAIRDRAW_TARGET avx512
#elif HWY_TARGET == HWY_AVX2
#define FAIRDRAW_TARGET avx2
#elif HWY_ARCH_ARM_A64 && HWY_TARGET == HWY_STATIC_TARGET  // NEON only, because SVE vectors have no
                                                           // fixed size
#define FAIRDRAW_TARGET neon
#endif

#ifdef FAIRDRAW_TARGET

HWY_BEFORE_NAMESPACE();
namespace fairdraw::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kMaxLanes = 16;

using F32 = hn::CappedTag<float, kMaxLanes>;
using U32 = hn::RebindToUnsigned<F32>;
using HalfF32 = hn::Half<F32>;
using HalfI32 = hn::RebindToSigned<HalfF32>;
using F64 = hn::Rebind<double, HalfF32>;
using U64 = hn::RebindToUnsigned<F64>;
using VecF = hn::Vec<F32>;
using VecU32 = hn::Vec<U32>;
using VecU64 = hn::Vec<U64>;
using VecF64 = hn::Vec<F64>;

HWY_INLINE std::size_t lanes() { return hn::Lanes(F32()); }

/// Loads n values, where n < lanes(), and fills the rest of the vector with NaN, which no
/// comparison with a threshold selects.
HWY_INLINE VecF load_tail(const float* x, std::size_t n) {
  float padded[kMaxLanes];
  std::fill_n(padded, kMaxLanes, std::numeric_limits<float>::quiet_NaN());
  std::copy_n(x, n, padded);
  return hn::LoadU(F32(), padded);
}

/// Returns a mask of the lanes in which either vector has a NaN.
HWY_INLINE hn::Mask<F32> nan_in(VecF a, VecF b) {
#if HWY_TARGET == HWY_AVX3
  return hn::Mask<F32>{_mm512_cmp_ps_mask(a.raw, b.raw, _CMP_UNORD_Q)};
#elif HWY_TARGET == HWY_AVX2
  return hn::Mask<F32>{_mm256_cmp_ps(a.raw, b.raw, _CMP_UNORD_Q)};
#else
  return hn::Or(hn::IsNaN(a), hn::IsNaN(b));
#endif
}

#if HWY_TARGET == HWY_AVX2
/// Lane numbers of the bits that are set in a byte, for each value of the byte; a word has one lane
/// number per byte, the lowest first.
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

/// Stores the values that a mask selects at `out`, where a whole vector is overwritten, and returns
/// the number of selected values.
HWY_INLINE std::size_t store_compressed(VecF value, hn::Mask<F32> inside, float* out) {
#if HWY_TARGET == HWY_AVX2
  // The table is the library's own, because Highway 1.0.3, compiled with GCC, copies its table to
  // the stack for every vector.
  const auto bits = static_cast<unsigned>(_mm256_movemask_ps(inside.raw));
  const __m128i bytes = _mm_cvtsi64_si128(static_cast<std::int64_t>(kCompressTable.lanes_of[bits]));
  _mm256_storeu_ps(out, _mm256_permutevar8x32_ps(value.raw, _mm256_cvtepu8_epi32(bytes)));
  return static_cast<std::size_t>(__builtin_popcount(bits));
#else
  // The values are compressed in a register, which is then stored as a whole, because Zen 4 is slow
  // at compressing to memory.
  hn::StoreU(hn::Compress(value, inside), F32(), out);
  return hn::CountTrue(F32(), inside);
#endif
}

/// Stores the values that several masks select one after the other, as whole vectors, and returns
/// their number. All counts are computed first, because a vector that waits for the count of the
/// previous vector takes half as long again.
template <std::size_t kCount>
HWY_INLINE std::size_t store_compressed(const VecF (&values)[kCount],
                                        const hn::Mask<F32> (&inside)[kCount], float* out) {
  std::size_t begin[kCount + 1] = {};
  for (std::size_t i = 0; i < kCount; ++i) {
    begin[i + 1] = begin[i] + hn::CountTrue(F32(), inside[i]);
  }
  for (std::size_t i = 0; i < kCount; ++i) store_compressed(values[i], inside[i], out + begin[i]);
  return begin[kCount];
}

}  // namespace HWY_NAMESPACE
}  // namespace fairdraw::cpu
HWY_AFTER_NAMESPACE();

#endif  // FAIRDRAW_TARGET

#endif  // end of the include guard, which is one per target
