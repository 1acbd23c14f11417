#include "cpu/row_reader.h"

#include <cstring>
#include <limits>

#include "common/arguments.h"

namespace fairdraw::cpu {

const float* RowReader::convert(const Passes& passes, const RowsView& rows, std::int64_t row) {
  const auto n = static_cast<std::size_t>(rows.vocab);
  const std::int64_t value_size = bytes_of(rows.dtype);
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

/// Returns the status that follows from the values of a row, including those of banned tokens.
RowStatus status_of(const RowScan& found) {
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
  // Negative values are counted before the bans overwrite them; they are reported only if there is
  // no NaN and no +inf.
  const bool negative = from_probs && passes.count_at_least(values, n, 0.0F) != n;
  if (values_.size() < n) values_.resize(n);
  const float banned = from_probs ? 0.0F : -std::numeric_limits<float>::infinity();
  status = status_of(passes.copy_allowed(values, n, allowed, banned, values_.data()));
  if (status == RowStatus::ok && negative) status = RowStatus::negative_probability;
  return values_.data();
}

/// Prepares the processing. Faults of values take precedence over faults of lists, so a row with
/// faulty lists is scanned only to find a fault of its values.
RowStatus RowReader::prepare(const Passes& passes, const float* values, std::size_t n,
                             const LogitsProcessing& processing, std::int64_t row,
                             const TokenRange& range) {
  const RowStatus of_lists = processor_.prepare(processing, row, values, n, range);
  if (of_lists == RowStatus::ok) return of_lists;
  const RowStatus of_values = status_of(passes.scan(values, n, nullptr));
  return of_values != RowStatus::ok ? of_values : of_lists;
}

const float* RowReader::read_processed(const Passes& passes, const RowsView& rows, std::int64_t row,
                                       const LogitsProcessing& processing,
                                       std::int64_t processed_as, const std::uint32_t* allowed,
                                       RowStatus& status, const TokenRange& range) {
  const auto n = static_cast<std::size_t>(rows.vocab);
  const float* values = convert(passes, rows, row);
  status = prepare(passes, values, n, processing, processed_as, range);
  // If nothing changes, the caller, which samples the row, also checks its values.
  if (status != RowStatus::ok || (allowed == nullptr && !processor_.changes())) return values;
  if (values_.size() < n) values_.resize(n);
  status = status_of(processor_.write(passes, values, n, allowed, values_.data()));
  return values_.data();
}

RowStatus RowReader::write_processed(const Passes& passes, const RowsView& rows, std::int64_t row,
                                     const LogitsProcessing& processing,
                                     const std::uint32_t* allowed, float* out) {
  const auto n = static_cast<std::size_t>(rows.vocab);
  const float* values = convert(passes, rows, row);
  RowStatus status = prepare(passes, values, n, processing, row, {});
  if (status == RowStatus::ok) {
    status = status_of(processor_.write(passes, values, n, allowed, out));
  }
  if (status != RowStatus::ok) return status;
  const float largest = passes.scan(out, n, nullptr).max;
  return largest == -std::numeric_limits<float>::infinity() ? RowStatus::no_allowed_token
                                                            : RowStatus::ok;
}

}  // namespace fairdraw::cpu
