// A row's distribution as a transform: draws become uniform values, whatever the row.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// What a token of a row is worth, in the order of ids and in that of falling probability.
struct RowTransform {
  std::vector<reference::Membership> membership;
  std::vector<bool> has_frequency;     ///< certain: the values of other tokens say nothing
  std::vector<double> by_id, by_rank;  ///< prefix sums of the certain tokens
  std::vector<std::uint32_t> rank_of;

  /// False where the row is undefined, must fail, or is ambiguous as a whole: it has no values.
  bool judged() const { return !by_id.empty(); }
};

RowTransform row_transform(const CheckInput& input, const Request& request, std::int64_t row);

}  // namespace fairdraw::harness
