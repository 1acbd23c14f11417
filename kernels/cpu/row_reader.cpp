#include "row_reader.h"

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

namespace {

/// NaN and +inf of a row, banned tokens included.
RowStatus status_of_values(const Passes& passes, const float* values, std::size_t n) {
  const RowScan found = passes.scan(values, n, nullptr);
  if (found.has_nan) return RowStatus::nan_input;
  return found.max == std::numeric_limits<float>::infinity() ? RowStatus::infinite_input
                                                             : RowStatus::ok;
}

}  // namespace

const float* RowReader::read(const Passes& passes, const RowsView& rows, std::int64_t row,
                             const std::uint32_t* allowed, bool from_probs, RowStatus& status) {
  const float* values = convert(passes, rows, row);
  status = RowStatus::ok;
  if (allowed == nullptr) return values;

  const auto n = static_cast<std::size_t>(rows.vocab);
  status = status_of_values(passes, values, n);
  if (status == RowStatus::ok && from_probs && passes.count_at_least(values, n, 0.0F) != n) {
    status = RowStatus::negative_probability;
  }
  if (status != RowStatus::ok) return values;

  if (values_.size() < n) values_.resize(n);
  const float banned = from_probs ? 0.0F : -std::numeric_limits<float>::infinity();
  passes.copy_allowed(values, n, allowed, banned, values_.data());
  return values_.data();
}

/// The row as floats, and its edits. `check_values`: all of them may vanish before anybody else
/// looks at them. Without it only values that an edit replaces are looked at here.
const float* RowReader::prepare(const Passes& passes, const RowsView& rows, std::int64_t row,
                                const LogitsProcessing& processing, bool check_values,
                                RowStatus& status) {
  const auto n = static_cast<std::size_t>(rows.vocab);
  const float* values = convert(passes, rows, row);
  status = processor_.prepare(processing, row, values, n);
  if (check_values || processor_.met_bad_value() || processor_.keeps_few() ||
      status != RowStatus::ok) {
    const RowStatus of_values = status_of_values(passes, values, n);
    if (of_values != RowStatus::ok) status = of_values;
  }
  return values;
}

const float* RowReader::read_processed(const Passes& passes, const RowsView& rows, std::int64_t row,
                                       const LogitsProcessing& processing,
                                       const std::uint32_t* allowed, RowStatus& status) {
  const float* values = prepare(passes, rows, row, processing, allowed != nullptr, status);
  if (status != RowStatus::ok || (allowed == nullptr && !processor_.changes())) return values;
  const auto n = static_cast<std::size_t>(rows.vocab);
  if (values_.size() < n) values_.resize(n);
  processor_.write(passes, values, n, allowed, values_.data());
  return values_.data();
}

RowStatus RowReader::write_processed(const Passes& passes, const RowsView& rows, std::int64_t row,
                                     const LogitsProcessing& processing,
                                     const std::uint32_t* allowed, float* out) {
  RowStatus status = RowStatus::ok;
  const float* values = prepare(passes, rows, row, processing, /*check_values=*/true, status);
  if (status != RowStatus::ok) return status;
  const auto n = static_cast<std::size_t>(rows.vocab);
  processor_.write(passes, values, n, allowed, out);
  const float largest = passes.scan(out, n, nullptr).max;
  return largest == -std::numeric_limits<float>::infinity() ? RowStatus::no_allowed_token
                                                            : RowStatus::ok;
}

}  // namespace fairdraw::cpu
