// Device memory and a stream for tests, tools and examples: a program without a CUDA header needs
// them to call fairdraw/cuda.h. Programs that have device memory and streams of their own use
// those.
//
// If the build has no CUDA kernels, or the machine no GPU, every call returns the error that
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

/// A stream of the current device. The stream is not blocked by the default stream. A stream can be
/// moved, not copied.
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
  Error synchronise();  ///< waits until all work on the stream has run, and reports its errors

  void* get() const noexcept { return stream_; }  ///< a cudaStream_t

 private:
  void* stream_ = nullptr;
};

/// A block of device memory, aligned to 256 bytes, that grows and is freed with the object.
/// Copies and fills are enqueued on a stream; the host memory must stay unchanged until the stream
/// has run them. A range outside the block is an error, and nothing is enqueued.
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

  /// Makes room for at least `bytes` bytes. If the buffer needs a new block for this, its contents
  /// are lost, and the call waits for the device.
  Error reserve(std::int64_t bytes);

  /// Copies `bytes` bytes of host memory to `offset` of the block.
  Error upload(std::int64_t offset, const void* source, std::int64_t bytes, const Stream& stream);
  /// Copies `bytes` bytes from `offset` of the block to host memory.
  Error download(void* target, std::int64_t offset, std::int64_t bytes, const Stream& stream) const;
  /// Sets `bytes` bytes of the block, from `offset` on, to `value`.
  Error fill(std::int64_t offset, std::uint8_t value, std::int64_t bytes, const Stream& stream);

  /// Returns the address of the block; null if nothing was reserved.
  void* data() const noexcept { return data_; }
  std::int64_t size() const noexcept { return bytes_; }  ///< in bytes

 private:
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace fairdraw::cuda
