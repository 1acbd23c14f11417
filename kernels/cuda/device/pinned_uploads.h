// Page-locked host memory, and small asynchronous copies from it to the device.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// A block of page-locked memory. The buffer can be moved but not copied.
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

/// A CUDA event that records no time. The event can be moved but not copied.
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

/// Copies from the host to the device, enqueued on one stream. The source may change as soon as
/// put() has returned, because the bytes are kept in page-locked chunks, which are used in
/// rotation. put() waits for the device if all chunks are in flight, which takes megabytes of
/// copies within a few steps.
class PinnedUploads {
 public:
  Error create(cudaStream_t stream);
  Error put(void* target, const void* source, std::int64_t bytes);

 private:
  static constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20;
  static constexpr std::size_t kChunks = 4;

  struct Chunk {
    PinnedBuffer memory;
    Event passed;  ///< event recorded when the chunk is full
    bool is_recorded = false;
  };
  Error next_chunk();

  cudaStream_t stream_ = nullptr;
  std::array<Chunk, kChunks> chunks_;
  std::size_t chunk_ = 0;
  std::int64_t used_ = 0;
};

}  // namespace fairdraw::cuda
