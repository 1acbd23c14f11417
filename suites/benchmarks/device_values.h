// What benchmarks on a GPU share: arrays in device memory, and the floor of a call.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "fairdraw/cuda_memory.h"
#include "fairdraw/types.h"
#include "suites/benchmarks/cuda_timing.h"

namespace fairdraw::suites {

/// One array in device memory.
template <class T>
class DeviceArray {
 public:
  DeviceArray(const std::vector<T>& values, const cuda::Stream& stream)
      : size_(static_cast<std::int64_t>(values.size())) {
    const std::int64_t bytes = size_ * std::int64_t{sizeof(T)};
    expect_success(buffer_.reserve(bytes), "an array of parameters");
    expect_success(buffer_.upload(0, values.data(), bytes, stream), "an array of parameters");
    expect_success(cudaStreamSynchronize(handle(stream)), "an array of parameters");
  }

  T* data() const { return static_cast<T*>(buffer_.data()); }
  PerRequest<T> per_request() const { return {data(), size_}; }
  View<T> view() const { return {data(), size_}; }
  std::vector<T> download(const cuda::Stream& stream) const {
    std::vector<T> values(static_cast<std::size_t>(size_));
    expect_success(buffer_.download(values.data(), 0, size_ * std::int64_t{sizeof(T)}, stream),
                   "an array of results");
    expect_success(cudaStreamSynchronize(handle(stream)), "an array of results");
    return values;
  }

 private:
  cuda::DeviceBuffer buffer_;
  std::int64_t size_;
};

/// The fastest kernel that reads some bytes once, captured.
class Floor {
 public:
  Floor(const void* data, DType dtype, std::int64_t bytes, const cuda::Stream& stream,
        ColdTimer& timer);

  const CapturedCall& call() const { return *call_; }

 private:
  cuda::DeviceBuffer largest_;
  std::unique_ptr<CapturedCall> call_;
};

}  // namespace fairdraw::suites
