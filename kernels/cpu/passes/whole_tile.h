// Tile of a row as the passes over tiles read it, with its values in their own dtype and the bits
// of allowed tokens.
//
// Included like vectors.h.
#if defined(FAIRDRAW_CPU_WHOLE_TILE_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FAIRDRAW_CPU_WHOLE_TILE_H
#undef FAIRDRAW_CPU_WHOLE_TILE_H
#else
#define FAIRDRAW_CPU_WHOLE_TILE_H
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/minus_infinity.h"
#include "cpu/passes/tile_passes.h"
#include "cpu/passes/vectors.h"

#ifdef FAIRDRAW_TARGET

HWY_BEFORE_NAMESPACE();
namespace fairdraw::cpu {
namespace HWY_NAMESPACE {

/// Loads a vector of float32 from values in their own dtype: float, hwy::float16_t or
/// hwy::bfloat16_t.
template <class Value>
HWY_INLINE VecF load(const Value* x) {
  if constexpr (sizeof(Value) == sizeof(float)) {
    return hn::LoadU(F32(), x);
  } else {
    const hn::Rebind<std::uint16_t, F32> bits;
    const auto narrow = hn::LoadU(bits, reinterpret_cast<const std::uint16_t*>(x));
    return hn::PromoteTo(F32(), hn::BitCast(hn::Rebind<Value, F32>(), narrow));
  }
}

template <class Value>
constexpr DType kDTypeOf = DType::float32;
template <>
constexpr DType kDTypeOf<hwy::float16_t> = DType::float16;
template <>
constexpr DType kDTypeOf<hwy::bfloat16_t> = DType::bfloat16;

/// bit[i] is 2^i.
struct BitOfLane {
  constexpr BitOfLane() {
    for (int i = 0; i < 32; ++i) bit[i] = 1U << i;
  }
  std::uint32_t bit[32] = {};
};
constexpr BitOfLane kBitOfLane;

/// Tile of a row, with kTileSize values at an address that is aligned for their dtype, and with the
/// bits of allowed tokens.
template <class Value>
class WholeTile {
 public:
  /// `copy` is a buffer for kTileSize values, which is used if the values cannot be read from the
  /// row itself.
  HWY_INLINE WholeTile(const RowInMemory& row, const WeightRule& rule, std::int64_t tile,
                       Value* copy) {
    const auto* bytes = static_cast<const std::uint8_t*>(row.data) +
                        static_cast<std::size_t>(tile) * kTileSize * sizeof(Value);
    const std::int64_t length = row.vocab - tile * kTileSize;
    const bool aligned = reinterpret_cast<std::uintptr_t>(bytes) % sizeof(Value) == 0;
    values_ = reinterpret_cast<const Value*>(bytes);
    if (HWY_UNLIKELY(length < kTileSize || !aligned)) copy_values(bytes, length, rule, copy);
    if (row.allowed != nullptr) copy_bits(row.allowed + tile * kWords, length);
  }

  HWY_INLINE const Value* values() const { return values_; }

  /// Returns the mask of allowed values for the vector that begins at position i. Precondition: the
  /// row has allowed bits.
  HWY_INLINE hn::Mask<F32> allowed(std::size_t i) const {
#if HWY_TARGET == HWY_AVX3
    return hn::LoadMaskBits(F32(), bits_ + i / 8);
#else
    // A load can broadcast a word in one instruction, while LoadMaskBits needs two instructions to
    // broadcast a byte.
    std::uint32_t word;
    std::memcpy(&word, bits_ + i / 32 * 4, sizeof(word));
    const U32 u32;
    return hn::RebindMask(F32(),
                          hn::TestBit(hn::Set(u32, word), hn::LoadU(u32, kBitOfLane.bit + i % 32)));
#endif
  }

 private:
  static constexpr std::int64_t kWords = kTileSize / 32;

  HWY_NOINLINE void copy_values(const std::uint8_t* bytes, std::int64_t length,
                                const WeightRule& rule, Value* copy) {
    const auto n = static_cast<std::size_t>(std::min<std::int64_t>(length, kTileSize));
    const std::uint32_t banned = rule.from_probs ? 0 : minus_infinity_bits(kDTypeOf<Value>);
    std::memcpy(copy, bytes, n * sizeof(Value));
    for (std::size_t i = n; i < kTileSize; ++i) std::memcpy(copy + i, &banned, sizeof(Value));
    values_ = copy;
  }

  HWY_INLINE void copy_bits(const std::uint32_t* words, std::int64_t length) {
    const std::int64_t n = std::min(kWords, (length + 31) / 32);
    std::memcpy(bits_, words, static_cast<std::size_t>(n) * sizeof(std::uint32_t));
  }

  const Value* values_;
  std::uint8_t bits_[kTileSize / 8 + 8];
};

}  // namespace HWY_NAMESPACE
}  // namespace fairdraw::cpu
HWY_AFTER_NAMESPACE();

#endif  // FAIRDRAW_TARGET

#endif  // end of the include guard, which is one per target
