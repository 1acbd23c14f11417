#include "row_reader.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace fairdraw::cpu {

std::int64_t size_of(DType dtype) { return dtype == DType::float32 ? 4 : 2; }

const float* RowReader::convert(const Passes& passes, const RowsView& rows, std::int64_t row) {
  const auto n = static_cast<std::size_t>(rows.vocab);
  const std::int64_t value_size = size_of(rows.dtype);
  const auto* bytes =
      static_cast<const std::uint8_t*>(rows.data) + row * rows.row_stride * value_size;
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(bytes) % static_cast<std::uintptr_t>(value_size) == 0;
  if (rows.dtype == DType::float32 && aligned) return reinterpret_cast<const float*>(bytes);

  if (values_.size() < n) values_.resize(n);
  if (rows.dtype == DType::float32) {
    std::memcpy(values_.data(), bytes, n * sizeof(float));
    return values_.data();
  }
  const auto* narrow = reinterpret_cast<const std::uint16_t*>(bytes);
  if (!aligned) {
    if (narrow_.size() < n) narrow_.resize(n);
    std::memcpy(narrow_.data(), bytes, n * sizeof(std::uint16_t));
    narrow = narrow_.data();
  }
  const auto widen = rows.dtype == DType::float16 ? passes.from_float16 : passes.from_bfloat16;
  widen(narrow, n, values_.data());
  return values_.data();
}

const float* RowReader::read(const Passes& passes, const RowsView& rows, std::int64_t row,
                             const std::uint32_t* allowed, bool from_probs, RowStatus& status) {
  const float* values = convert(passes, rows, row);
  status = RowStatus::ok;
  if (allowed == nullptr) return values;

  const auto n = static_cast<std::size_t>(rows.vocab);
  const RowScan found = passes.scan(values, n, nullptr);
  if (found.has_nan) {
    status = RowStatus::nan_input;
  } else if (found.max == std::numeric_limits<float>::infinity()) {
    status = RowStatus::infinite_input;
  } else if (from_probs && passes.count_at_least(values, n, 0.0F) != n) {
    status = RowStatus::negative_probability;
  }
  if (status != RowStatus::ok) return values;

  if (values_.size() < n) values_.resize(n);
  float* out = values_.data();
  const float banned = from_probs ? 0.0F : -std::numeric_limits<float>::infinity();
  for (std::size_t begin = 0; begin < n; begin += 32) {
    const std::uint32_t word = allowed[begin / 32];
    const std::size_t end = std::min(n, begin + 32);
    if (word == 0xffffffffU && out == values) continue;
    for (std::size_t i = begin; i < end; ++i) {
      out[i] = ((word >> (i - begin)) & 1U) != 0 ? values[i] : banned;
    }
  }
  return out;
}

}  // namespace fairdraw::cpu
