// Page-locked host memory, with small asynchronous copies from this memory to the device.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Block of page-locked memory. The buffer can be moved but not copied.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }

  Error allocate(std::int64_t bytes);  ///< called once
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

/// CUDA event that records no time. The event can be moved but not copied.
class Event {
 public:
  Event() = default;
  ~Event();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }

  Error create();  ///< called once
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Copies from the host to the device, which are enqueued on a single stream. The source may change
/// as soon as put() has returned, because put() keeps the bytes in page-locked chunks, which are
/// used in rotation. If all chunks are in flight, which takes megabytes of copies within a few
/// steps, put() waits for the device.
class PinnedUploads {
 public:
  Error create(cudaStream_t stream);
  Error put(void* target, const void* source, std::int64_t bytes);

 private:
  static constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20;
  static constexpr std::size_t kChunks = 4;

  struct Chunk {
    PinnedBuffer memory;
    Event passed;  ///< event that is recorded when the chunk is full
    bool is_recorded = false;
  };
  Error next_chunk();

  cudaStream_t stream_ = nullptr;
  std::array<Chunk, kChunks> chunks_;
  std::size_t chunk_ = 0;
  std::int64_t used_ = 0;
};

}  // namespace fairdraw::cuda
