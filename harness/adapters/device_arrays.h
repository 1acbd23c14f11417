// The arrays of one call on the device: copied there and back, results included, so that what the
// sampler leaves untouched comes back as it was. Everything else in the block is NaN, so that a
// read outside a row shows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "fairdraw/cuda_memory.h"

namespace fairdraw::harness {

/// What a call needs on the device. Kept from call to call, and from sampler to sampler.
struct DeviceState {
  cuda::Stream stream;
  cuda::DeviceBuffer arrays, workspace;
};

/// Calls with a state that no other call is using, and waits until all that was enqueued is over.
/// Returns the message of the first error.
std::string on_device(const std::function<Error(DeviceState&)>& call);

/// Bytes from the first element of a matrix to the end of its last row; 0 where its sizes make no
/// sense, which is for the sampler to refuse.
std::int64_t extent(std::int64_t rows, std::int64_t stride, std::int64_t width, std::int64_t size);

/// Bytes of an element of `dtype`, as fairdraw_batch has it.
std::int64_t element_bytes(std::uint32_t dtype);

/// Each array at a place of its own in one block of device memory.
class DeviceArrays {
 public:
  /// Plans a place for `bytes` bytes at `host`; null stays null. Returns its number.
  std::size_t add(const void* host, std::int64_t bytes);
  /// As add, for a result: download() brings it back.
  std::size_t add_result(void* host, std::int64_t bytes);

  Error upload(DeviceState& state);
  Error download(DeviceState& state) const;

  /// Where array `number` lies on the device, after upload().
  template <class T>
  T* at(std::size_t number) const {
    const Array& array = arrays_[number];
    return array.host == nullptr ? nullptr : reinterpret_cast<T*>(base_ + array.offset);
  }

 private:
  struct Array {
    const void* host = nullptr;
    void* result = nullptr;
    std::int64_t offset = 0, bytes = 0;
  };
  std::array<Array, 64> arrays_{};
  std::size_t count_ = 0;
  std::int64_t end_ = 0;
  char* base_ = nullptr;
};

}  // namespace fairdraw::harness
