// Macros that let a header of kernels/common compile for both host and device.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define FAIRDRAW_HOST_DEVICE __host__ __device__
#else
#define FAIRDRAW_HOST_DEVICE
#endif

namespace fairdraw {

__extension__ typedef unsigned __int128 uint128_t;

}  // namespace fairdraw
