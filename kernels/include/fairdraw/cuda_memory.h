// Device memory and a stream, for tests, tools and examples: what a program without a CUDA header
// needs to call fairdraw/cuda.h. Programs that have memory and streams of their own keep those.
//
// Without CUDA kernels in the build, or without a GPU, every call gives the error that
// why_not_available() explains.
//
// Errors: A call returns invalid_argument if the stream has been created already, or if a range is
// not inside the block; and unsupported if there are no kernels or no GPU, or if the CUDA runtime
// reports an error, which the message names.
#pragma once

#include <cstdint>
#include <utility>

#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// A stream of the current device. Not blocked by the default stream. Moves, does not copy.
class Stream {
 public:
  Stream() = default;
  ~Stream();
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }

  Error create();       ///< once, before use
  Error synchronise();  ///< waits until all work on it has run; reports its errors

  void* get() const noexcept { return stream_; }  ///< a cudaStream_t

 private:
  void* stream_ = nullptr;
};

/// A block of device memory, aligned to 256 bytes, that grows and is freed with the object.
/// Copies and fills are enqueued on a stream; host memory must stay until that has run. A range
/// outside the block is an error, and nothing is enqueued.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  /// Makes room for at least `bytes`. If this needs a new block, the contents are lost, and the
  /// call waits for the device.
  Error reserve(std::int64_t bytes);

  /// Copies `bytes` bytes of host memory to `offset` of the block.
  Error upload(std::int64_t offset, const void* source, std::int64_t bytes, const Stream& stream);
  /// Copies `bytes` bytes from `offset` of the block to host memory.
  Error download(void* target, std::int64_t offset, std::int64_t bytes, const Stream& stream) const;
  /// Sets `bytes` bytes from `offset` of the block on to `value`.
  Error fill(std::int64_t offset, std::uint8_t value, std::int64_t bytes, const Stream& stream);

  void* data() const noexcept { return data_; }          ///< null where nothing was reserved
  std::int64_t size() const noexcept { return bytes_; }  ///< in bytes

 private:
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace fairdraw::cuda
