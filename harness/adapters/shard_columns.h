// Selects the columns of a shard from the arrays that a call gives per token.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "fairdraw/logits_processing.h"
#include "fairdraw/types.h"

namespace fairdraw::harness {

bool bit_at(const std::uint32_t* words, std::int64_t bit);
void set_bit(std::uint32_t* words, std::int64_t bit, bool value);

/// The columns from begin to end, exclusive. Each function of() returns views of the call's own
/// arrays; this object only stores packed bits, which it must shift.
class ShardColumns {
 public:
  ShardColumns(std::int64_t begin, std::int64_t end) : begin_(begin), end_(end) {}

  RowsView of(const RowsView& rows) const;
  BitRows<const std::uint32_t> of(const BitRows<const std::uint32_t>& rows);
  LogitsProcessing of(const LogitsProcessing& whole);

 private:
  std::int64_t begin_, end_;
  std::deque<std::vector<std::uint32_t>> bits_;  // a deque, because views point to its elements
};

}  // namespace fairdraw::harness
