// Checks of contracts on the device, in builds with the CMake option FAIRDRAW_DEVICE_ASSERTS. A
// failed check ends the kernel with a message. Other builds contain no code for the checks.
#pragma once

#ifdef FAIRDRAW_DEVICE_ASSERTS

#include <cstdio>
#include <cstdlib>

namespace fairdraw::cuda {

/// Ends the kernel, or the program in which the emulator runs the kernel. The function does not use
/// assert(), because release builds define NDEBUG.
__host__ __device__ inline void fail_assertion(const char* condition, const char* file, int line) {
  printf("%s:%d: not true: %s\n", file, line, condition);
#ifdef __CUDA_ARCH__
  __trap();
#else
  std::abort();
#endif
}

}  // namespace fairdraw::cuda

#define FAIRDRAW_DEVICE_ASSERT(condition) \
  ((condition) ? static_cast<void>(0)     \
               : ::fairdraw::cuda::fail_assertion(#condition, __FILE__, __LINE__))

#else
#define FAIRDRAW_DEVICE_ASSERT(condition) static_cast<void>(0)
#endif
