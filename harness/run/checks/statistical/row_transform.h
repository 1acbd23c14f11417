// A row's distribution as a transform: draws become uniform values for any row.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Transformed values of the tokens of a row, in the order of ids and of decreasing probability.
struct RowTransform {
  std::vector<reference::Membership> membership;
  std::vector<bool> has_frequency;     ///< certain tokens; other tokens' values mean nothing
  std::vector<double> by_id, by_rank;  ///< prefix sums of the certain tokens
  std::vector<std::uint32_t> rank_of;

  /// Returns false if the row is undefined, must fail, or is ambiguous as a whole; it then has no
  /// values.
  bool judged() const { return !by_id.empty(); }
};

RowTransform row_transform(const CheckInput& input, const Request& request, std::int64_t row);

}  // namespace fairdraw::harness
