// Checks of contracts on the device, in builds with the CMake option FAIRDRAW_DEVICE_ASSERTS. A
// failed check ends the kernel with a message. Other builds contain no code for the checks.
#pragma once

#include <cassert>

#ifdef FAIRDRAW_DEVICE_ASSERTS
#define FAIRDRAW_DEVICE_ASSERT(condition)                                \
  do {                                                                   \
    if (!(condition)) __assert_fail(#condition, __FILE__, __LINE__, ""); \
  } while (false)
#else
#define FAIRDRAW_DEVICE_ASSERT(condition) static_cast<void>(0)
#endif
