// fairdraw/cuda_memory.h in a build without CUDA kernels: nothing is ever allocated, and every
// call says why.
#include "fairdraw/cuda.h"
#include "fairdraw/cuda_memory.h"

namespace fairdraw::cuda {
namespace {

Error no_cuda() { return {ErrorCode::unsupported, why_not_available()}; }

}  // namespace

Stream::~Stream() { stream_ = nullptr; }
Error Stream::create() { return no_cuda(); }
Error Stream::synchronise() { return no_cuda(); }

DeviceBuffer::~DeviceBuffer() { data_ = nullptr; }
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
