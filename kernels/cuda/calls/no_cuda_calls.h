// Macros for the calls that a build without CUDA kernels refuses (no_cuda.cpp,
// no_cuda_serving.cpp).
#pragma once

#include <cstdint>

#include "fairdraw/cuda.h"

#define FAIRDRAW_NO_BYTES(...) \
  std::int64_t workspace_bytes(__VA_ARGS__) noexcept { return 0; }
#define FAIRDRAW_NO_CALL(name, ...) \
  Error name(__VA_ARGS__) { return {ErrorCode::unsupported, why_not_available()}; }
