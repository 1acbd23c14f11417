#include "harness/inputs/captured_logits.h"

#include <bit>
#include <stdexcept>

#include "harness/inputs/narrow_floats.h"

namespace fairdraw::harness {

std::size_t value_size(DType dtype) { return dtype == DType::float32 ? 4 : 2; }

std::vector<float> CapturedLogits::row(std::int64_t index) const {
  if (index < 0 || index >= rows) {
    throw std::out_of_range("row " + std::to_string(index) + " of " + std::to_string(rows));
  }
  const auto count = static_cast<std::size_t>(vocab);
  const std::size_t size = value_size(dtype);
  const std::byte* bytes = data.data() + static_cast<std::size_t>(index) * count * size;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i, bytes += size) {
    std::uint32_t bits = 0;  // assembled from bytes in little-endian order
    for (std::size_t b = size; b-- > 0;)
      bits = bits << 8 | std::to_integer<std::uint32_t>(bytes[b]);
    const auto low_half = static_cast<std::uint16_t>(bits & 0xffff);
    values[i] = dtype == DType::float32   ? std::bit_cast<float>(bits)
                : dtype == DType::float16 ? from_float16(low_half)
                                          : from_bfloat16(low_half);
  }
  return values;
}

}  // namespace fairdraw::harness
