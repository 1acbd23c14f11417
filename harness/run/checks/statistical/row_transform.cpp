#include "harness/run/checks/statistical/row_transform.h"

#include <algorithm>
#include <utility>

#include "harness/run/checks/exact/certain_distribution.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {

RowTransform row_transform(const CheckInput& input, const Request& request, std::int64_t row) {
  reference::RealDistribution distribution = distribution_of(input, request, row);
  RowTransform result;
  std::vector<double>& probability = distribution.probability;
  for (std::size_t token = 0; token < probability.size(); ++token) {
    result.has_frequency.push_back(distribution.has_frequency(token));
    if (!result.has_frequency.back()) probability[token] = 0;
  }
  const std::vector<std::uint32_t> order = by_falling_probability(probability);
  result.rank_of.resize(order.size());
  std::vector<double> ranked(order.size());
  for (std::uint32_t rank = 0; rank < order.size(); ++rank) {
    result.rank_of[order[rank]] = rank;
    ranked[rank] = probability[order[rank]];
  }
  const bool has_draws = std::any_of(ranked.begin(), ranked.end(), [](double p) { return p > 0; });
  if (!has_draws) return result;
  result.by_id = statistics::prefix_sums(probability);
  result.by_rank = statistics::prefix_sums(ranked);
  result.membership = std::move(distribution.membership);
  return result;
}

}  // namespace fairdraw::harness
