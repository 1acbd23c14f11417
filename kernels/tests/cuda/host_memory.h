// Host memory for a field that must be in device memory; a call must reject it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/cuda/arrays.h"

namespace fairdraw::suites {

/// Pageable and page-locked host memory, large enough for every array of a Call.
class HostMemory {
 public:
  HostMemory() : pageable_(kBytes) {
    require(cudaMallocHost(&page_locked_, kBytes), "cudaMallocHost");
  }
  ~HostMemory() { static_cast<void>(cudaFreeHost(page_locked_)); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  std::vector<void*> blocks() { return {pageable_.data(), page_locked_}; }

 private:
  static constexpr std::size_t kBytes = 1 << 16;
  std::vector<std::uint64_t> pageable_;
  void* page_locked_ = nullptr;
};

/// Replaces the pointer in a field by `memory`.
template <class T>
void replace(T*& pointer, void* memory) {
  pointer = static_cast<T*>(memory);
}

}  // namespace fairdraw::suites
