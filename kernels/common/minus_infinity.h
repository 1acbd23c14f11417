// Value of a masked logit in any dtype.
#pragma once

#include <cstdint>

#include "common/host_device.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Returns the bits of -inf in a dtype.
FAIRDRAW_HOST_DEVICE inline std::uint32_t minus_infinity_bits(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return 0xfc00U;
    case DType::bfloat16:
      return 0xff80U;
    case DType::float32:
      break;
  }
  return 0xff800000U;
}

}  // namespace fairdraw
