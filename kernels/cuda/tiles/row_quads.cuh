// Values of a row in quads, which are four consecutive ids that begin at a multiple of 4, at any
// address.
//
// Quads are used to read parts of a row that are smaller than a tile a second time, with processing
// applied. A quad takes one load of 16 bytes (for 16-bit types, 8 bytes) if the row is aligned to
// that size and consists of whole quads, and then no branch separates the loads of several quads.
// In other rows, a quad is read value by value.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/tiles/tile_values.cuh"

namespace fairdraw::cuda {

inline constexpr int kQuad = 4;
inline constexpr int kQuadsOfTile = kTileSize / kQuad;

template <RowForm kForm>
class RowQuads {
 public:
  /// Takes a row.
  __device__ __forceinline__ explicit RowQuads(const RowOfTiles<kForm>& row)
      : values_(row.values()), edits_(row.edits()), allowed_(row.allowed()), vocab_(row.vocab()) {
    values_.dtype = kForm.type;
  }

  __device__ int vocab() const { return vocab_; }
  __device__ bool has_vectors() const {
    if (kForm.access == TileAccess::vectors) return true;
    return is_aligned(values_.bytes, kQuad * value_size(kForm.type)) && vocab_ % kQuad == 0;
  }

  /// Quad in the form in which it was loaded: the bits of its values (after vector loads of 16-bit
  /// types, two values in each even word), and the words that contain the allowed and edited bits
  /// of the quad.
  struct Raw {
    std::uint32_t bits[kQuad];
    std::uint32_t allowed, edited;
  };

  /// Starts to load the ids from `first` to first + 3; kVectors must be has_vectors().
  template <bool kVectors>
  __device__ __forceinline__ void load(int first, Raw& raw) const {
    if constexpr (kVectors) {
      load_vector(first, raw.bits);
    } else {
      load_value_bits<kForm.type, 1>(values_.bytes + std::int64_t{first} * value_size(kForm.type),
                                     values_.aligned, vocab_ - first, 0, raw.bits);
    }
    raw.allowed = 0xffffffffU;
    raw.edited = 0;
    if (first >= vocab_) return;
    const unsigned word = static_cast<unsigned>(first) / 32U;
    if (allowed_ != nullptr) raw.allowed = allowed_[word];
    if (edits_.edited != nullptr) raw.edited = edits_.edited[word];
  }

  /// Converts a quad to its values, with -inf for ids that are banned or beyond the vocabulary.
  template <bool kVectors>
  __device__ __forceinline__ void convert(int first, const Raw& raw, float (&x)[kQuad]) const {
    constexpr bool kPairs = kVectors && kForm.type != DType::float32;
    const unsigned place = static_cast<unsigned>(first) % 32U;
    const std::uint32_t allowed = raw.allowed >> place;
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      const bool counts = ((allowed >> i) & 1U) != 0 && first + i < vocab_;
      const std::uint32_t bits =
          kPairs ? (raw.bits[i - i % 2] >> (16 * (i % 2))) & 0xffffU : raw.bits[i];
      x[i] = counts ? float_of(bits, kForm.type) : -INFINITY;
    }
    const std::uint32_t edited = allowed & (raw.edited >> place) & ((1U << kQuad) - 1U);
    if (edited == 0) return;
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      if (((edited >> i) & 1U) != 0) x[i] = edits_.values[first + i];
    }
  }

  /// Reads a quad in rarely executed code, where a single instance serves vector loads and scalar
  /// loads.
  __device__ __forceinline__ void load_any(int first, float (&x)[kQuad]) const {
    Raw raw;
    if (has_vectors()) {
      load<true>(first, raw);
      convert<true>(first, raw, x);
    } else {
      load<false>(first, raw);
      convert<false>(first, raw, x);
    }
  }

 private:
  /// Loads a quad. The load is volatile, because the compiler would otherwise move loads behind the
  /// uses of earlier loads to save registers. For a quad beyond the vocabulary, the first quad of
  /// the row is loaded instead, but not used.
  __device__ __forceinline__ void load_vector(int first, std::uint32_t (&bits)[kQuad]) const {
    const auto quad = static_cast<unsigned>(first < vocab_ ? first : 0) / kQuad;
    if constexpr (kForm.type == DType::float32) {
      asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])
                   : "l"(reinterpret_cast<const uint4*>(values_.bytes) + quad));
    } else {
      asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];"
                   : "=r"(bits[0]), "=r"(bits[2])
                   : "l"(reinterpret_cast<const uint2*>(values_.bytes) + quad));
    }
  }

  RowValues values_;
  RowEdits edits_;
  const std::uint32_t* allowed_;  ///< allowed bits, or null if all tokens are allowed
  int vocab_;
};

}  // namespace fairdraw::cuda
