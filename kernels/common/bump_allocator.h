// Arrays one after another in one block of memory, of the host or of a device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace fairdraw {

/// Places arrays in a block. Without a block (null) it counts bytes alone: the query of a size is
/// the code that places the arrays.
class BumpAllocator {
 public:
  /// What cudaMalloc aligns to, so that an array is aligned as if it were a buffer of its own.
  static constexpr std::int64_t kDeviceAlignment = 256;
  /// A cache line: no array shares one with another.
  static constexpr std::int64_t kHostAlignment = 64;

  /// `block` is aligned to `alignment` bytes, and so is each array.
  explicit BumpAllocator(void* block, std::int64_t alignment = kDeviceAlignment)
      : block_(static_cast<std::byte*>(block)), alignment_(alignment) {}

  /// The next array; null without a block, or without elements.
  template <class T>
  T* allocate(std::int64_t count) {
    if (count <= 0) return nullptr;
    std::byte* array = block_ == nullptr ? nullptr : block_ + bytes_;
    constexpr std::int64_t kSize = sizeof(T);
    const std::int64_t size = std::min(count, kMaxArrayBytes / kSize) * kSize;
    bytes_ += (size + alignment_ - 1) / alignment_ * alignment_;
    return reinterpret_cast<T*>(array);
  }
  template <class T>
  void allocate(T*& array, std::int64_t count) {
    array = allocate<T>(count);
  }

  /// Of the arrays so far, each rounded up to the alignment.
  std::int64_t bytes() const { return bytes_; }

 private:
  /// More than machines have; sizes stop growing there, so that sums of a few thousand arrays do
  /// not overflow.
  static constexpr std::int64_t kMaxArrayBytes = std::int64_t{1} << 50;

  std::byte* block_;
  std::int64_t alignment_;
  std::int64_t bytes_ = 0;
};

}  // namespace fairdraw
