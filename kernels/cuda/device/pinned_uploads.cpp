#include "cuda/device/pinned_uploads.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "cuda/device/device_pointers.h"

namespace fairdraw::cuda {
namespace {

constexpr std::int64_t kPlace = 16;  // alignment, in bytes, of the copies within a chunk

}  // namespace

PinnedBuffer::~PinnedBuffer() { static_cast<void>(cudaFreeHost(data_)); }

Error PinnedBuffer::allocate(std::int64_t bytes) {
  return check_call(std::to_string(bytes) + " bytes of page-locked memory",
                    cudaMallocHost(&data_, static_cast<std::size_t>(bytes)));
}

Event::~Event() {
  if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
}

Error Event::create() {
  return check_call("a new event", cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
}

Error PinnedUploads::create(cudaStream_t stream) {
  stream_ = stream;
  for (Chunk& chunk : chunks_) {
    if (Error error = chunk.memory.allocate(kChunkBytes)) return error;
    if (Error error = chunk.passed.create()) return error;
  }
  return {};
}

Error PinnedUploads::put(void* target, const void* source, std::int64_t bytes) {
  auto* to = static_cast<std::byte*>(target);
  const auto* from = static_cast<const std::byte*>(source);
  while (bytes > 0) {
    if (used_ >= kChunkBytes) {
      if (Error error = next_chunk()) return error;
    }
    const std::int64_t part = std::min(bytes, kChunkBytes - used_);
    std::byte* const staged = chunks_[chunk_].memory.data() + used_;
    std::memcpy(staged, from, static_cast<std::size_t>(part));
    if (Error error = check_call("a copy to the device",
                                 cudaMemcpyAsync(to, staged, static_cast<std::size_t>(part),
                                                 cudaMemcpyHostToDevice, stream_))) {
      return error;
    }
    used_ += (part + kPlace - 1) / kPlace * kPlace;
    to += part;
    from += part;
    bytes -= part;
  }
  return {};
}

Error PinnedUploads::next_chunk() {
  Chunk& full = chunks_[chunk_];
  if (Error error = check_call("an event of a copy", cudaEventRecord(full.passed.get(), stream_))) {
    return error;
  }
  full.is_recorded = true;
  chunk_ = (chunk_ + 1) % kChunks;
  used_ = 0;
  Chunk& next = chunks_[chunk_];
  if (!next.is_recorded) return {};
  return check_call("an earlier copy to the device", cudaEventSynchronize(next.passed.get()));
}

}  // namespace fairdraw::cuda
