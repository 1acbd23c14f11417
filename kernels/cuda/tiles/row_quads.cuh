// Values of a row by quads: four consecutive ids from a multiple of 4, wherever the row lies.
//
// For what is read a second time, in parts smaller than a tile. One load of 16 bytes (16-bit types:
// of 8) where the row is aligned to that and a whole number of quads, and no branch between the loads
// of several quads; value by value otherwise.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/tiles/tile_values.cuh"

namespace fairdraw::cuda {

inline constexpr int kQuad = 4;
inline constexpr int kQuadsOfTile = kTileSize / kQuad;

template <DType kType>
class RowQuads {
 public:
  __device__ RowQuads(const RowsView& rows, const BitRows<const std::uint32_t>& allowed,
                      std::int64_t number)
      : values_(RowValues::of(rows, number)),
        allowed_(allowed.given() ? allowed.data + number * allowed.row_stride : nullptr),
        vocab_(static_cast<int>(rows.vocab)) {
    values_.dtype = kType;
  }

  __device__ int vocab() const { return vocab_; }
  __device__ bool has_vectors() const {
    return is_aligned(values_.bytes, kQuad * value_size(kType)) && vocab_ % kQuad == 0;
  }

  /// The allowed values of ids first ... first + 3, else -inf, beyond the vocabulary too.
  /// kVectors: has_vectors().
  template <bool kVectors>
  __device__ __forceinline__ void load(int first, float (&x)[kQuad]) const {
    std::uint32_t bits[kQuad];
    if constexpr (kVectors) {
      load_vector(first, bits);
    } else {
#pragma unroll
      for (int i = 0; i < kQuad; ++i) bits[i] = bits_of(values_, first + i, vocab_);
    }
    const unsigned allowed = allowed_of(first);
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      x[i] = ((allowed >> i) & 1U) != 0 ? float_of(bits[i], kType) : -INFINITY;
    }
  }

  /// load() for code that is not worth two instances.
  __device__ __forceinline__ void load_any(int first, float (&x)[kQuad]) const {
    if (has_vectors()) {
      load<true>(first, x);
    } else {
      load<false>(first, x);
    }
  }

 private:
  __device__ __forceinline__ void load_vector(int first, std::uint32_t (&bits)[kQuad]) const {
    if constexpr (kType == DType::float32) {
      uint4 four{};
      if (first < vocab_) four = __ldg(reinterpret_cast<const uint4*>(values_.bytes) + first / kQuad);
      bits[0] = four.x, bits[1] = four.y, bits[2] = four.z, bits[3] = four.w;
    } else {
      uint2 two{};
      if (first < vocab_) two = __ldg(reinterpret_cast<const uint2*>(values_.bytes) + first / kQuad);
      bits[0] = two.x & 0xffffU, bits[1] = two.x >> 16;
      bits[2] = two.y & 0xffffU, bits[3] = two.y >> 16;
    }
  }

  /// Arguments by value: `values` stays in registers.
  __device__ __noinline__ static std::uint32_t bits_of(RowValues values, int id, int vocab) {
    return id < vocab ? values.bits(id) : 0;
  }

  /// Bits 0 to 3: which ids of the quad are allowed.
  __device__ __forceinline__ unsigned allowed_of(int first) const {
    unsigned in_row = 0xfU;
    if (first + kQuad > vocab_) in_row = first < vocab_ ? 0xfU >> (first + kQuad - vocab_) : 0;
    if (allowed_ == nullptr || first >= vocab_) return in_row;
    return (__ldg(allowed_ + first / 32) >> (first % 32)) & in_row;
  }

  RowValues values_;
  const std::uint32_t* allowed_;  ///< null: all are
  int vocab_;
};

}  // namespace fairdraw::cuda
