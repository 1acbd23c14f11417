// Arrays in device memory for tests, which are copied from host vectors and back to them.
//
// Guard bytes precede and follow every array that a kernel may write, including the workspace. An
// array that is only read has an allocation of its own, so that compute-sanitizer detects reads
// beyond its end.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fairdraw/cuda.h"

namespace fairdraw::suites {

/// Throws if a call of the CUDA runtime failed, because a test without its device must not pass.
inline void require(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}

/// A block of device memory that is freed with the object.
class DeviceBlock {
 public:
  DeviceBlock() = default;
  explicit DeviceBlock(std::size_t bytes) : bytes_(bytes) {
    require(cudaMalloc(&data_, bytes), "cudaMalloc");
  }
  ~DeviceBlock() { static_cast<void>(cudaFree(data_)); }
  DeviceBlock(DeviceBlock&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBlock& operator=(DeviceBlock&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::uint8_t* data() const { return static_cast<std::uint8_t*>(data_); }
  std::size_t size() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Places the arrays of a call (harness/inputs/owned_call.h) in GPU memory; HostArrays does the
/// same for the CPU.
class DeviceArrays {
 public:
  /// Returns a device copy of `values`; null if the vector is empty.
  template <class T>
  const T* in(const std::vector<T>& values) {
    return reinterpret_cast<const T*>(place(values.data(), values.size() * sizeof(T), 0));
  }

  /// Returns a device copy of `values` that a kernel may write. fetch() copies it back to `values`,
  /// which must stay in place until then.
  template <class T>
  T* out(std::vector<T>& values) {
    const std::size_t bytes = values.size() * sizeof(T);
    std::uint8_t* data = place(values.data(), bytes, kGuard);
    if (data != nullptr) {
      outputs_.push_back({data, bytes, reinterpret_cast<std::uint8_t*>(values.data())});
    }
    return reinterpret_cast<T*>(data);
  }

  /// Returns an execution for `rows` rows, with a workspace of exactly the required size.
  cuda::Execution execution(std::int64_t rows, cuda::Path path, void* stream = nullptr) {
    return execution_of(cuda::workspace_bytes(rows), path, stream);
  }
  template <class Request>
    requires std::is_class_v<Request>
  cuda::Execution execution(const Request& request, cuda::Path path, void* stream = nullptr) {
    return execution_of(cuda::workspace_bytes(request), path, stream);
  }
  cuda::Execution execution(const SampleRequest& request, const LogprobsResult& logprobs,
                            cuda::Path path, void* stream = nullptr) {
    return execution_of(cuda::workspace_bytes(request, logprobs), path, stream);
  }

  /// Returns an execution with a workspace of `bytes` bytes.
  cuda::Execution execution_with(std::int64_t bytes, cuda::Path path, void* stream = nullptr) {
    return execution_of(bytes, path, stream);
  }

  /// Waits for the device and copies every array that out() returned back to the host. Throws if a
  /// kernel failed or wrote outside an array.
  void fetch() {
    require(cudaDeviceSynchronize(), "a kernel");
    std::vector<std::uint8_t> guard(kGuard);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const Output& output = outputs_[i];
      for (const std::uint8_t* at : {output.data - kGuard, output.data + output.bytes}) {
        require(cudaMemcpy(guard.data(), at, kGuard, cudaMemcpyDeviceToHost), "cudaMemcpy");
        if (std::count(guard.begin(), guard.end(), kGuardByte) != static_cast<long>(kGuard)) {
          throw std::runtime_error("bytes outside of array " + std::to_string(i) + " of " +
                                   std::to_string(outputs_.size()) + " were written");
        }
      }
      if (output.host == nullptr) continue;
      require(cudaMemcpy(output.host, output.data, output.bytes, cudaMemcpyDeviceToHost),
              "cudaMemcpy");
    }
  }

  /// Sets an action that run_operation and run_chain run after all arrays are placed, and before
  /// the call itself.
  void when_ready(std::function<void()> action) { when_ready_ = std::move(action); }
  void ready() const {
    if (when_ready_) when_ready_();
  }

  /// Forgets the arrays, but keeps their memory for the arrays of the next call.
  void rewind() {
    next_ = 0;
    outputs_.clear();
  }

 private:
  static constexpr std::size_t kGuard = 256;  // size of a guard, which preserves the alignment that
                                              // cudaMalloc gives
  static constexpr std::uint8_t kGuardByte = 0xa5;

  struct Output {
    std::uint8_t* data;
    std::size_t bytes;
    std::uint8_t* host;
  };

  cuda::Execution execution_of(std::int64_t bytes, cuda::Path path, void* stream) {
    // The memory is not filled, so that compute-sanitizer detects reads of memory that no kernel
    // wrote.
    std::uint8_t* data = place(nullptr, static_cast<std::size_t>(bytes), kGuard);
    if (data != nullptr) outputs_.push_back({data, static_cast<std::size_t>(bytes), nullptr});
    return {stream, data, bytes, path};
  }

  std::uint8_t* place(const void* source, std::size_t bytes, std::size_t guard) {
    if (bytes == 0) return nullptr;
    const std::size_t needed = bytes + 2 * guard;
    if (next_ == blocks_.size()) blocks_.emplace_back();
    DeviceBlock& block = blocks_[next_++];
    if (block.size() < needed) block = DeviceBlock(needed);
    std::uint8_t* data = block.data() + guard;
    if (guard > 0) {
      require(cudaMemset(data - guard, kGuardByte, guard), "cudaMemset");
      require(cudaMemset(data + bytes, kGuardByte, guard), "cudaMemset");
    }
    if (source != nullptr) {
      require(cudaMemcpy(data, source, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    }
    // When cudaMemcpy returns, a copy from pageable memory may still be in flight; streams that do
    // not wait for the default stream would then read old contents.
    require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    return data;
  }

  std::vector<DeviceBlock> blocks_;
  std::vector<Output> outputs_;
  std::function<void()> when_ready_;
  std::size_t next_ = 0;
};

/// Returns the execution paths of the CUDA kernels that this machine supports.
inline std::vector<cuda::Path> available_paths() {
  std::vector<cuda::Path> paths;
  for (const cuda::Path path : {cuda::Path::cluster, cuda::Path::block}) {
    if (cuda::is_available(path)) paths.push_back(path);
  }
  return paths;
}

}  // namespace fairdraw::suites

/// Skips a test without a GPU. This macro must be the first line of a test that needs a GPU.
#define FAIRDRAW_SKIP_WITHOUT_GPU()                                                     \
  if (!::fairdraw::cuda::is_available()) {                                              \
    GTEST_SKIP() << "not run without a GPU: " << ::fairdraw::cuda::why_not_available(); \
  }                                                                                     \
  static_assert(true, "so that it ends with a semicolon")
