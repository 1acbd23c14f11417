#include "reference/tests/compare_oracles.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>

namespace fairdraw::reference {

double total_variation(const IntegerRow& row, const RealDistribution& distribution) {
  long double twice = 0;
  for (std::size_t id = 0; id < row.mask.size(); ++id) {
    const long double weight = row.mask[id] != 0 ? static_cast<long double>(row.weight[id]) : 0.0L;
    twice += std::abs(weight / static_cast<long double>(row.total) - distribution.probability[id]);
  }
  return static_cast<double>(twice / 2);
}

std::string contradiction(const IntegerRow& row, const RealDistribution& distribution) {
  if (row.status != RowStatus::ok || distribution.must_fail || !distribution.defined) {
    const bool both =
        row.status != RowStatus::ok && distribution.must_fail && !distribution.defined;
    return both ? ""
                : fmt::format("one oracle fails the row: status {}, must_fail {}",
                              static_cast<int>(row.status), distribution.must_fail);
  }
  for (std::size_t id = 0; id < row.mask.size(); ++id) {
    const Membership membership = distribution.membership[id];
    if (membership != Membership::ambiguous &&
        (membership == Membership::in) != (row.mask[id] != 0)) {
      return fmt::format("token {} is {} in integers and {} in real numbers", id,
                         row.mask[id] != 0 ? "in" : "out",
                         membership == Membership::in ? "in" : "out");
    }
  }
  if (row.support_size < distribution.support_low || row.support_size > distribution.support_high) {
    return fmt::format("support size {} outside [{}, {}]", row.support_size,
                       distribution.support_low, distribution.support_high);
  }
  const double distance = total_variation(row, distribution);
  if (!(distance <= distribution.total_variation_bound)) {
    return fmt::format("total variation {} above its bound {}", distance,
                       distribution.total_variation_bound);
  }
  for (std::size_t id = 0; id < row.mask.size(); ++id) {
    if (row.mask[id] == 0) continue;
    const double probability = static_cast<double>(row.weight[id]) / static_cast<double>(row.total);
    if (probability <= distribution.largest) continue;
    return fmt::format("token {} has {}, more than {}", id, probability, distribution.largest);
  }
  return "";
}

Semantics fairdraw_semantics(TieRule tie_rule, FilterOrder filter_order) {
  Semantics semantics = *find_profile("fairdraw");
  if (tie_rule == TieRule::lowest_id) semantics.top_k_ties = TopKTies::lowest_id;
  if (filter_order == FilterOrder::joint) semantics.top_p_base = TopPBase::joint;
  return semantics;
}

}  // namespace fairdraw::reference
