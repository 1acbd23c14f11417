// fairdraw/cuda_memory.h in a build without CUDA kernels: nothing is ever allocated, and every
// call says why.
#include <utility>

#include "fairdraw/cuda.h"
#include "fairdraw/cuda_memory.h"

namespace fairdraw::cuda {
namespace {

Error no_cuda() { return {ErrorCode::unsupported, why_not_available()}; }

}  // namespace

Stream::~Stream() { stream_ = nullptr; }
Stream::Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(stream_, other.stream_);
  return *this;
}
Error Stream::create() { return no_cuda(); }
Error Stream::synchronise() { return no_cuda(); }

DeviceBuffer::~DeviceBuffer() { data_ = nullptr; }
DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}
Error DeviceBuffer::reserve(std::int64_t) { return no_cuda(); }
Error DeviceBuffer::upload(std::int64_t, const void*, std::int64_t, const Stream&) {
  return no_cuda();
}
Error DeviceBuffer::download(void*, std::int64_t, std::int64_t, const Stream&) const {
  return no_cuda();
}
Error DeviceBuffer::fill(std::int64_t, std::uint8_t, std::int64_t, const Stream&) {
  return no_cuda();
}

}  // namespace fairdraw::cuda
