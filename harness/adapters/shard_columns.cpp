#include "harness/adapters/shard_columns.h"

#include <algorithm>

#include "harness/contract/call_arrays.h"

namespace fairdraw::harness {

bool bit_at(const std::uint32_t* words, std::int64_t bit) {
  return ((words[bit / 32] >> (bit % 32)) & 1U) != 0;
}

void set_bit(std::uint32_t* words, std::int64_t bit, bool value) {
  const std::uint32_t mask = 1U << (bit % 32);
  words[bit / 32] = value ? words[bit / 32] | mask : words[bit / 32] & ~mask;
}

RowsView ShardColumns::of(const RowsView& rows) const {
  RowsView columns = rows;
  columns.vocab = end_ - begin_;
  if (rows.data == nullptr) return columns;
  const std::int64_t value_bytes = rows.dtype == DType::float32 ? 4 : 2;
  columns.data = static_cast<const std::uint8_t*>(rows.data) + begin_ * value_bytes;
  return columns;
}

/// Returns the shard's columns of a bit mask, packed again from bit 0 on.
BitRows<const std::uint32_t> ShardColumns::of(const BitRows<const std::uint32_t>& rows) {
  if (!rows.given()) return rows;
  const std::int64_t stride = std::max<std::int64_t>(words_for(end_ - begin_), 1);
  std::vector<std::uint32_t>& bits =
      bits_.emplace_back(static_cast<std::size_t>(std::max<std::int64_t>(rows.rows * stride, 1)));
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    for (std::int64_t id = begin_; id < end_; ++id) {
      set_bit(bits.data() + row * stride, id - begin_,
              bit_at(rows.data + row * rows.row_stride, id));
    }
  }
  return {bits.data(), rows.rows, stride};
}

LogitsProcessing ShardColumns::of(const LogitsProcessing& whole) {
  LogitsProcessing processing = whole;
  processing.prompt_mask = of(whole.prompt_mask);
  if (processing.output_counts.given()) processing.output_counts.data += begin_;
  return processing;
}

}  // namespace fairdraw::harness
