#include <Eigen/Core>
#include <bit>

#include "reference/integer_model.h"

namespace fairdraw::reference {

float float_from_half(std::uint16_t bits) {
  return static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(bits));
}

float float_from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

}  // namespace fairdraw::reference
