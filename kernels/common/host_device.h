// Single source for host and device: what a header of kernels/common needs to be both.
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
