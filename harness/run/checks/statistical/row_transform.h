// Transforms draws by the distribution of their row, so that they become uniform values for any
// row.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// The transformed values of the tokens of a row, in the order of ids and in the order of
/// decreasing probability.
struct RowTransform {
  std::vector<reference::Membership> membership;
  std::vector<bool> has_frequency;     ///< true for certain tokens, whose values have a meaning
  std::vector<double> by_id, by_rank;  ///< prefix sums over the certain tokens
  std::vector<std::uint32_t> rank_of;

  /// Returns false if the row is undefined, must fail, or is ambiguous as a whole, so that it has
  /// no values.
  bool judged() const { return !by_id.empty(); }
};

RowTransform row_transform(const CheckInput& input, const Request& request, std::int64_t row);

}  // namespace fairdraw::harness
