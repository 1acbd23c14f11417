// Parts that benchmarks on a GPU share: arrays and rows in device memory, and the floor of a call.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "fairdraw/cuda_memory.h"
#include "fairdraw/types.h"
#include "suites/benchmarks/benchmark_rows.h"
#include "suites/benchmarks/cuda_timing.h"

namespace fairdraw::suites {

/// Arrays in device memory that this object owns.
class DeviceValues {
 public:
  explicit DeviceValues(const cuda::Stream& stream) : stream_(stream) {}

  template <class T>
  T* room(std::int64_t count) {
    cuda::DeviceBuffer& buffer = buffers_.emplace_back();
    expect_success(buffer.reserve(std::max<std::int64_t>(count, 1) * kBytes<T>), "an array");
    return static_cast<T*>(buffer.data());
  }
  template <class T>
  T* copy(const T* values, std::int64_t count) {
    T* const target = room<T>(count);
    expect_success(buffers_.back().upload(0, values, count * kBytes<T>, stream_), "an array");
    expect_success(cudaStreamSynchronize(handle(stream_)), "an array");
    return target;
  }
  /// Copies an array to the device. Returns the address on the device; null for an empty array.
  template <class T>
  T* in(const std::vector<T>& values) {
    return values.empty() ? nullptr : copy(values.data(), static_cast<std::int64_t>(values.size()));
  }
  template <class T>
  View<T> view(const std::vector<T>& values) {
    return {in(values), static_cast<std::int64_t>(values.size())};
  }
  template <class T>
  std::vector<T> download(const T* values, std::int64_t count) const {
    std::vector<T> here(static_cast<std::size_t>(count));
    expect_success(cudaMemcpyAsync(here.data(), values, here.size() * sizeof(T),
                                   cudaMemcpyDeviceToHost, handle(stream_)),
                   "an array of results");
    expect_success(cudaStreamSynchronize(handle(stream_)), "an array of results");
    return here;
  }
  template <class T>
  std::vector<T> download(const View<T>& view) const {
    return download(view.data, view.size);
  }

 private:
  template <class T>
  static constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));

  const cuda::Stream& stream_;
  std::vector<cuda::DeviceBuffer> buffers_;
};

/// The bytes that a call must read, as one array.
struct Inputs {
  const void* data = nullptr;
  DType dtype = DType::float32;
  std::int64_t bytes = 0;

  bool operator==(const Inputs&) const = default;
};

/// Rows of logits in device memory, which repeat the rows of the host.
class DeviceRows {
 public:
  DeviceRows(const Rows& host, std::int64_t batch, const cuda::Stream& stream);

  const Rows& host() const { return host_; }
  /// Returns the first `batch` rows.
  RowsView view(std::int64_t batch) const {
    return {values_.data(), host_.dtype, batch, host_.vocab, host_.vocab};
  }
  Inputs inputs(std::int64_t batch) const {
    return {values_.data(), host_.dtype, batch * row_bytes_};
  }

 private:
  const Rows& host_;
  std::int64_t row_bytes_;
  cuda::DeviceBuffer values_;
};

/// The fastest of the captured kernels that read a given number of bytes once.
class Floor {
 public:
  Floor(const Inputs& inputs, const cuda::Stream& stream, ColdTimer& timer);

  const CapturedCall& call() const { return *call_; }

 private:
  cuda::DeviceBuffer largest_;
  std::unique_ptr<CapturedCall> call_;
};

}  // namespace fairdraw::suites
