// Outputs of a call, grouped by the row from which they draw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "fairdraw/sample.h"

namespace fairdraw::cpu {

/// Lists the outputs of each row. With indices, these are the outputs whose entry in `indices` is
/// the number of the row, in order; without indices, it is the output with the number of the row.
class OutputsByRow {
 public:
  OutputsByRow() = default;
  explicit OutputsByRow(const SampleRequest& request) : indexed_(request.indices.given()) {
    if (!indexed_) return;
    const View<const std::int32_t>& indices = request.indices;
    const std::int64_t rows = request.logits.rows;
    const auto in_range = [rows](std::int32_t row) { return row >= 0 && row < rows; };
    begin_.assign(static_cast<std::size_t>(rows) + 1, 0);
    for (std::int64_t i = 0; i < indices.size; ++i) {
      if (in_range(indices.data[i])) ++begin_[static_cast<std::size_t>(indices.data[i]) + 1];
    }
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    output_.resize(static_cast<std::size_t>(begin_.back()));
    std::vector<std::int64_t> next(begin_.begin(), begin_.end() - 1);
    for (std::int64_t i = 0; i < indices.size; ++i) {
      if (!in_range(indices.data[i])) continue;  // the output does not belong to any row
      std::int64_t& slot = next[static_cast<std::size_t>(indices.data[i])];
      output_[static_cast<std::size_t>(slot++)] = i;
    }
  }

  std::int64_t count(std::int64_t row) const {
    if (!indexed_) return 1;
    const auto r = static_cast<std::size_t>(row);
    return begin_[r + 1] - begin_[r];
  }
  /// Returns the number of the i-th output of a row; i must be below count(row).
  std::int64_t at(std::int64_t row, std::int64_t i) const {
    if (!indexed_) return row;
    return output_[static_cast<std::size_t>(begin_[static_cast<std::size_t>(row)] + i)];
  }

 private:
  bool indexed_ = false;
  std::vector<std::int64_t> begin_;
  std::vector<std::int64_t> output_;
};

}  // namespace fairdraw::cpu
