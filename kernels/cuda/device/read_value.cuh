// Exact reads of the values of a row in device memory, for any dtype, stride and byte address.
//
// The functions are for kernels that read a row once or twice among other work: each value takes
// one load, and the loads are coalesced over the lanes of a warp. The function visit_values reads
// 16 bytes at a time if the addresses allow this.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Returns the size in bytes of one value.
__host__ __device__ constexpr std::int64_t value_size(DType dtype) {
  return dtype == DType::float32 ? 4 : 2;
}

/// Returns the float32 that is equal to a value of type `dtype`. `bits` has the bits of the value
/// at the low end of the word.
__device__ inline float float_of(std::uint32_t bits, DType dtype) {
  switch (dtype) {
    case DType::float16:
      return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
    case DType::bfloat16:
      return __uint_as_float(bits << 16);
    case DType::float32:
      break;
  }
  return __uint_as_float(bits);
}

/// Returns whether the address `pointer` is a multiple of `bytes`, which must be a power of two.
__device__ inline bool is_aligned(const void* pointer, std::int64_t bytes) {
  return (reinterpret_cast<std::uintptr_t>(pointer) & static_cast<std::uintptr_t>(bytes - 1)) == 0;
}

/// Values of a row in device memory. The loads do not use the read-only cache, because
/// top_k_mask_logits may write to the memory that it reads.
struct RowValues {
  const unsigned char* bytes;
  DType dtype;
  bool aligned;  ///< whether the address `bytes` is aligned to the size of a value

  __device__ static RowValues of(const RowsView& rows, std::int64_t row) {
    const std::int64_t size = value_size(rows.dtype);
    const auto* bytes = static_cast<const unsigned char*>(rows.data) + row * rows.row_stride * size;
    return {bytes, rows.dtype, is_aligned(bytes, size)};
  }

  /// Returns the bits of value i at the low end of a word.
  __device__ std::uint32_t bits(std::int64_t i) const {
    const unsigned char* at = bytes + i * value_size(dtype);
    if (dtype == DType::float32) {
      if (aligned) return *reinterpret_cast<const std::uint32_t*>(at);
      return at[0] | (std::uint32_t{at[1]} << 8) | (std::uint32_t{at[2]} << 16) |
             (std::uint32_t{at[3]} << 24);
    }
    if (aligned) return *reinterpret_cast<const std::uint16_t*>(at);
    return at[0] | (std::uint32_t{at[1]} << 8);
  }

  __device__ float operator[](std::int64_t i) const { return float_of(bits(i), dtype); }

  /// Loads the value with index first + i * step into x[i], for each i, or `beyond` if this index
  /// is at least `end`. In an aligned row, no load waits for another, because the dtype and the
  /// alignment of the row are tested only once.
  template <int kCount>
  __device__ __forceinline__ void load(std::int64_t first, int step, std::int64_t end, float beyond,
                                       float (&x)[kCount]) const {
    // A load takes one instruction, because the count has 32 bits and all loads share one address.
    const auto left = static_cast<int>(min(end - first, std::int64_t{step} * kCount));
    if (!aligned) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = i * step < left ? (*this)[first + i * step] : beyond;
    } else if (dtype == DType::float32) {
      const float* values = reinterpret_cast<const float*>(bytes) + first;
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = i * step < left ? values[i * step] : beyond;
    } else {
      const std::uint16_t* values = reinterpret_cast<const std::uint16_t*>(bytes) + first;
      std::uint32_t loaded[kCount];
#pragma unroll
      for (int i = 0; i < kCount; ++i) loaded[i] = i * step < left ? values[i * step] : 0;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        x[i] = i * step < left ? float_of(loaded[i], dtype) : beyond;
      }
    }
  }
};

/// Loads the bits of the values 0, kStep, 2 kStep and so on from an address, with `empty` in place
/// of values whose index is at least `left`. If the address is not a multiple of the size of a
/// value, the values are read byte by byte. The loads share one address, make no call, and do not
/// depend on each other. No thread may write the values in the meantime, because the loads use the
/// read-only cache.
template <DType kType, int kStep, int kCount>
__device__ __forceinline__ void load_value_bits(const unsigned char* at, bool aligned, int left,
                                                std::uint32_t empty,
                                                std::uint32_t (&bits)[kCount]) {
  constexpr auto kBytes = static_cast<int>(value_size(kType));
  if (aligned) {
    using Bits = std::conditional_t<kBytes == 4, std::uint32_t, std::uint16_t>;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      bits[i] = i * kStep < left ? __ldg(reinterpret_cast<const Bits*>(at) + i * kStep) : empty;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    bits[i] = empty;
    if (i * kStep >= left) continue;
    std::uint32_t value = 0;
#pragma unroll
    for (int byte = 0; byte < kBytes; ++byte) {
      value |= std::uint32_t{__ldg(at + i * kStep * kBytes + byte)} << (8 * byte);
    }
    bits[i] = value;
  }
}

/// Calls visit(index, value) once for each of the row's first n values, in any order. The values
/// are shared by `threads` threads, of which this thread has the number `thread`.
template <class Visit>
__device__ void visit_places(const RowValues& row, std::int64_t n, int thread, int threads,
                             const Visit& visit) {
  if (!row.aligned) {
    for (std::int64_t i = thread; i < n; i += threads) visit(i, row[i]);
    return;
  }
  constexpr std::int64_t kVectorBytes = 16;
  const std::int64_t size = value_size(row.dtype);
  const std::int64_t per_vector = kVectorBytes / size;
  const auto misalignment = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(row.bytes) %
                                                      static_cast<std::uintptr_t>(kVectorBytes));
  const std::int64_t to_boundary = (kVectorBytes - misalignment) % kVectorBytes / size;
  const std::int64_t head = to_boundary < n ? to_boundary : n;
  const std::int64_t vectors = (n - head) / per_vector;
  const auto* body = reinterpret_cast<const uint4*>(row.bytes + head * size);

  // A thread with this number exists, because `head` is at most 7 values, and a block has at least
  // 32 threads.
  if (thread < head) visit(std::int64_t{thread}, row[thread]);
  // All loads come before the visits, because a visit may write, and the compiler moves no load
  // across a write.
  constexpr int kTogether = 4;
  for (std::int64_t v = thread; v < vectors; v += kTogether * threads) {
    uint4 loaded[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (v + i * threads < vectors) loaded[i] = body[v + i * threads];
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (v + i * threads >= vectors) break;
      const std::uint32_t words[4] = {loaded[i].x, loaded[i].y, loaded[i].z, loaded[i].w};
      const std::int64_t first = head + (v + i * threads) * per_vector;
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        if (row.dtype == DType::float32) {
          visit(first + w, __uint_as_float(words[w]));
        } else {
          visit(first + 2 * w, float_of(words[w] & 0xffffU, row.dtype));
          visit(first + 2 * w + 1, float_of(words[w] >> 16, row.dtype));
        }
      }
    }
  }
  const std::int64_t tail = head + vectors * per_vector + thread;
  if (tail < n) visit(tail, row[tail]);  // at most 7 values
}

/// Calls visit(value) for the same values as visit_places.
template <class Visit>
__device__ void visit_values(const RowValues& row, std::int64_t n, int thread, int threads,
                             const Visit& visit) {
  visit_places(row, n, thread, threads, [&visit](std::int64_t, float x) { visit(x); });
}

}  // namespace fairdraw::cuda
