// Arrays in one block of device memory, one behind the other, each aligned as a block is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fairdraw::cuda {

/// Hands out places of a block. Without a block, sizes alone: a null one is measured first, then
/// the same calls place the arrays.
class DevicePlaces {
 public:
  explicit DevicePlaces(void* block) : block_(static_cast<std::byte*>(block)) {}

  template <class T>
  void give(T*& array, std::int64_t count) {
    array = block_ == nullptr ? nullptr : reinterpret_cast<T*>(block_ + used_);
    constexpr std::int64_t kStep = 256;  // what cudaMalloc gives
    used_ += (count * static_cast<std::int64_t>(sizeof(T)) + kStep - 1) / kStep * kStep;
  }
  std::int64_t used() const { return used_; }

 private:
  std::byte* block_;
  std::int64_t used_ = 0;
};

}  // namespace fairdraw::cuda
