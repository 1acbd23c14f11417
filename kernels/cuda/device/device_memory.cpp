// Device memory and streams of fairdraw/cuda_memory.h, implemented with the CUDA runtime.
#include <cuda_runtime_api.h>

#include <string>

#include "fairdraw/cuda.h"
#include "fairdraw/cuda_memory.h"

namespace fairdraw::cuda {
namespace {

Error error_of(cudaError_t status, const std::string& what) {
  if (status == cudaSuccess) return {};
  static_cast<void>(cudaGetLastError());  // clears the error, which this call reports, so that the
                                          // next call does not find it
  return {ErrorCode::unsupported, what + ": " + cudaGetErrorString(status)};
}

Error check_range(const DeviceBuffer& buffer, std::int64_t offset, std::int64_t bytes,
                  const char* what) {
  if (offset >= 0 && bytes >= 0 && offset <= buffer.size() && bytes <= buffer.size() - offset) {
    return {};
  }
  return {ErrorCode::invalid_argument,
          std::string(what) + ": " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
              " are not inside the block of " + std::to_string(buffer.size()) + " bytes"};
}

cudaStream_t handle(const Stream& stream) { return static_cast<cudaStream_t>(stream.get()); }

}  // namespace

Stream::~Stream() {
  if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(static_cast<cudaStream_t>(stream_)));
}

Error Stream::create() {
  if (!is_available()) return {ErrorCode::unsupported, why_not_available()};
  if (stream_ != nullptr) return {ErrorCode::invalid_argument, "the stream is there already"};
  cudaStream_t stream = nullptr;
  const Error error =
      error_of(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a new stream");
  stream_ = stream;
  return error;
}

Error Stream::synchronise() {
  return error_of(cudaStreamSynchronize(handle(*this)), "work on the stream");
}

DeviceBuffer::~DeviceBuffer() { static_cast<void>(cudaFree(data_)); }

Error DeviceBuffer::reserve(std::int64_t bytes) {
  if (!is_available()) return {ErrorCode::unsupported, why_not_available()};
  if (bytes <= bytes_) return {};
  static_cast<void>(cudaFree(data_));
  data_ = nullptr;
  bytes_ = 0;
  const Error error = error_of(cudaMalloc(&data_, static_cast<std::size_t>(bytes)),
                               std::to_string(bytes) + " bytes of device memory");
  if (!error) bytes_ = bytes;
  return error;
}

Error DeviceBuffer::upload(std::int64_t offset, const void* source, std::int64_t bytes,
                           const Stream& stream) {
  if (const Error error = check_range(*this, offset, bytes, "upload")) return error;
  if (bytes == 0) return {};
  return error_of(
      cudaMemcpyAsync(static_cast<char*>(data_) + offset, source, static_cast<std::size_t>(bytes),
                      cudaMemcpyHostToDevice, handle(stream)),
      "upload");
}

Error DeviceBuffer::download(void* target, std::int64_t offset, std::int64_t bytes,
                             const Stream& stream) const {
  if (const Error error = check_range(*this, offset, bytes, "download")) return error;
  if (bytes == 0) return {};
  return error_of(
      cudaMemcpyAsync(target, static_cast<const char*>(data_) + offset,
                      static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, handle(stream)),
      "download");
}

Error DeviceBuffer::fill(std::int64_t offset, std::uint8_t value, std::int64_t bytes,
                         const Stream& stream) {
  if (const Error error = check_range(*this, offset, bytes, "fill")) return error;
  if (bytes == 0) return {};
  return error_of(cudaMemsetAsync(static_cast<char*>(data_) + offset, value,
                                  static_cast<std::size_t>(bytes), handle(stream)),
                  "fill");
}

}  // namespace fairdraw::cuda
