// Allocator of consecutive arrays in one block of host or device memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace fairdraw {

/// Allocator that places arrays one after the other in a block of memory. Without a block (null),
/// the allocator only counts bytes, so that the same function computes the size of the block and
/// places the arrays.
class BumpAllocator {
 public:
  /// Alignment of arrays on the device, which is that of cudaMalloc, so that an array is aligned as
  /// if it had a buffer of its own.
  static constexpr std::int64_t kDeviceAlignment = 256;
  /// Alignment of arrays on the host, which is the size of a cache line, so that no two arrays
  /// share a line.
  static constexpr std::int64_t kHostAlignment = 64;

  /// Precondition: `block` is aligned to `alignment` bytes. Each array is aligned to the same
  /// number of bytes as the block.
  explicit BumpAllocator(void* block, std::int64_t alignment = kDeviceAlignment)
      : block_(static_cast<std::byte*>(block)), alignment_(alignment) {}

  /// Returns the address of the next array, or null if there is no block or the array has no
  /// elements.
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

  /// Returns the total size in bytes of the arrays so far, each rounded up to the alignment.
  std::int64_t bytes() const { return bytes_; }

 private:
  /// Size in bytes that is larger than the memory of any machine. The size of each array is limited
  /// to this maximum, so that the sum of a few thousand sizes does not overflow.
  static constexpr std::int64_t kMaxArrayBytes = std::int64_t{1} << 50;

  std::byte* block_;
  std::int64_t alignment_;
  std::int64_t bytes_ = 0;
};

}  // namespace fairdraw
