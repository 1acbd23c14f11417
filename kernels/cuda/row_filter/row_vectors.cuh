// A row as vectors of 16 bytes, wherever it begins: what is read through shared memory.
#pragma once

#include <cstdint>

#include "cuda/device/read_value.cuh"

namespace fairdraw::cuda {

/// The values between the 16-byte boundary before a row's first address and that address.
__device__ inline int place_of_first_token(const void* row, DType dtype) {
  const auto address = reinterpret_cast<std::uintptr_t>(row);
  const std::uintptr_t size = dtype == DType::float32 ? 4 : 2;
  return address % size == 0 ? static_cast<int>(address % 16 / size) : 0;
}

/// The vectors of a row: at multiples of 16 bytes, the first and the last perhaps not whole.
class RowVectors {
 public:
  __device__ RowVectors(const RowsView& rows, std::int64_t number)
      : values_(RowValues::of(rows, number)),
        vocab_(static_cast<int>(rows.vocab)),
        head_(place_of_first_token(values_.bytes, rows.dtype)),
        of_vector_log2_(rows.dtype == DType::float32 ? 2 : 3) {}

  __device__ int count() const {
    return (vocab_ + head_ + (1 << of_vector_log2_) - 1) >> of_vector_log2_;
  }
  /// True where every vector is whole.
  __device__ bool plain() const {
    return values_.aligned && head_ == 0 && (vocab_ & ((1 << of_vector_log2_) - 1)) == 0;
  }
  /// Where a vector lies; its values, if it is whole.
  __device__ const uint4* at(int vector) const {
    const auto address = reinterpret_cast<std::uintptr_t>(values_.bytes);
    return reinterpret_cast<const uint4*>(address & ~std::uintptr_t{15}) + vector;
  }
  __device__ bool is_whole(int vector) const {
    const int first = first_of(vector);
    return values_.aligned && first >= 0 && first + (1 << of_vector_log2_) <= vocab_;
  }
  __device__ uint4 load(int vector) const {
    return is_whole(vector) ? *at(vector) : load_by_value(values_, first_of(vector), vocab_);
  }

 private:
  __device__ int first_of(int vector) const { return (vector << of_vector_log2_) - head_; }

  /// Values outside of the row are 0: they weigh nothing. Arguments by value: `values` stays in
  /// registers.
  __device__ __noinline__ static uint4 load_by_value(RowValues values, int first, int vocab) {
    const bool is_float32 = values.dtype == DType::float32;
    std::uint32_t words[4] = {0, 0, 0, 0};
    for (int i = 0; i < (is_float32 ? 4 : 8); ++i) {
      if (first + i < 0 || first + i >= vocab) continue;
      words[is_float32 ? i : i / 2] |= values.bits(first + i) << (is_float32 ? 0 : 16 * (i % 2));
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }

  RowValues values_;
  int vocab_, head_, of_vector_log2_;
};

/// Begins a copy of 16 bytes into shared memory; `wanted` false: of zeros.
__device__ inline void copy_vector(uint4* to, const uint4* from, bool wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(from), "r"(wanted ? 16 : 0)
               : "memory");
}

/// Calls visit(x) for each value of a vector.
template <DType kType, class Visit>
__device__ __forceinline__ void visit_vector(const uint4& raw, Visit&& visit) {
  const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kType == DType::float32) {
      visit(__uint_as_float(words[i]));
    } else {
      visit(float_of(words[i] & 0xffffU, kType));
      visit(float_of(words[i] >> 16, kType));
    }
  }
}

}  // namespace fairdraw::cuda
