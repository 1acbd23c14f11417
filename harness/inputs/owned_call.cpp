#include "harness/inputs/owned_call.h"

#include <cstring>

#include "harness/inputs/narrow_floats.h"

namespace fairdraw::harness {
namespace {

std::size_t size_of(DType dtype) { return dtype == DType::float32 ? 4 : 2; }

}  // namespace

void OwnedCall::make_parameter_arrays(std::int64_t requests) {
  temperature.make_array(requests);
  top_k.make_array(requests);
  top_p.make_array(requests);
  min_p.make_array(requests);
}

void OwnedCall::set_parameters(std::int64_t request, const reference::RowParameters& parameters) {
  temperature.set(request) = parameters.temperature;
  top_k.set(request) = parameters.top_k;
  top_p.set(request) = parameters.top_p;
  min_p.set(request) = parameters.min_p;
}

void OwnedCall::allocate(DType type, std::int64_t row_count, std::int64_t vocabulary,
                         std::int64_t stride, std::size_t shift_bytes) {
  dtype = type;
  rows = row_count;
  vocab = vocabulary;
  row_stride = stride;
  shift = shift_bytes;
  // The array ends with the last row, so that a read beyond that row is also beyond the block of
  // memory.
  const std::int64_t count = rows > 0 ? (rows - 1) * stride + vocab : 0;
  values.assign(shift + static_cast<std::size_t>(count) * size_of(dtype), 0xff);
}

void OwnedCall::set_row(std::int64_t row, const float* logits) {
  const std::size_t size = size_of(dtype);
  std::uint8_t* at = values.data() + shift + static_cast<std::size_t>(row * row_stride) * size;
  const auto count = static_cast<std::size_t>(vocab);
  if (dtype == DType::float32) {
    std::memcpy(at, logits, count * size);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t bits =
        dtype == DType::float16 ? to_float16(logits[i]) : to_bfloat16(logits[i]);
    std::memcpy(at + i * size, &bits, size);
  }
}

}  // namespace fairdraw::harness
