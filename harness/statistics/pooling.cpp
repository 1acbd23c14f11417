#include "harness/statistics/pooling.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "harness/statistics/argument.h"
#include "harness/statistics/compensated_sum.h"

namespace fairdraw::statistics {
namespace {

constexpr std::uint32_t kMaxGroups = 1U << 20;

struct Cells {
  std::vector<std::uint32_t> cell_of;  ///< [masses]
  std::vector<double> probability;     ///< [cells]
};

// Merges masses into cells, beginning with the largest mass.
Cells close_cells(std::span<const double> masses, double draws, double min_expected,
                  std::uint32_t max_cells) {
  std::vector<std::uint32_t> order;
  for (std::size_t i = 0; i < masses.size(); ++i) {
    if (masses[i] > 0) order.push_back(static_cast<std::uint32_t>(i));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return masses[a] > masses[b]; });

  // The suffix sums are added from the smallest mass up: remaining[i] is the mass of order[i] and
  // of all masses after it.
  std::vector<double> remaining(order.size());
  CompensatedSum from_below;
  for (std::size_t i = order.size(); i-- > 0;) {
    from_below.add(masses[order[i]]);
    remaining[i] = from_below.value();
  }

  Cells cells{std::vector<std::uint32_t>(masses.size(), kNoCell), {}};
  std::uint32_t cell = 0;
  std::size_t first = 0;  // index in `order` of the first mass in the unfinished cell
  CompensatedSum mass;
  for (std::size_t i = 0; i < order.size(); ++i) {
    mass.add(masses[order[i]]);
    cells.cell_of[order[i]] = cell;
    double needed = min_expected;
    if (max_cells != 0) needed = std::max(needed, draws * remaining[first] / (max_cells - cell));
    const bool last_allowed = max_cells != 0 && cell + 1 == max_cells;
    if (last_allowed || draws * mass.value() < needed) continue;
    cells.probability.push_back(mass.value());
    mass = {};
    first = i + 1;
    ++cell;
  }
  if (first == order.size()) return cells;  // no mass remains
  const bool is_full = draws * mass.value() >= min_expected;
  if (is_full || cells.probability.empty()) {
    cells.probability.push_back(mass.value());
    return cells;
  }
  for (std::size_t i = first; i < order.size(); ++i) cells.cell_of[order[i]] = cell - 1;
  mass.add(cells.probability.back());
  cells.probability.back() = mass.value();
  return cells;
}

void require_rule(std::span<const double> probability, std::uint64_t draws, double min_expected) {
  require_distribution("probability", probability);
  require_draws("draws", draws, 1);
  require_statistic("min_expected", min_expected);
}

Pooling finish(std::vector<std::uint32_t> cell_of, std::vector<double> probability,
               std::uint64_t draws) {
  CompensatedSum total;  // removes rounding errors of the distribution, over up to 2^20 tokens
  for (const double p : probability) total.add(p);
  for (double& p : probability) p /= total.value();
  const double smallest = *std::min_element(probability.begin(), probability.end());
  return {std::move(cell_of), std::move(probability), smallest * static_cast<double>(draws)};
}

}  // namespace

Pooling pool_by_probability(std::span<const double> probability, std::uint64_t draws,
                            double min_expected, std::uint32_t max_cells) {
  require_rule(probability, draws, min_expected);
  Cells cells = close_cells(probability, static_cast<double>(draws), min_expected, max_cells);
  return finish(std::move(cells.cell_of), std::move(cells.probability), draws);
}

Pooling pool_by_group(std::span<const double> probability, std::span<const std::uint32_t> group_of,
                      std::uint64_t draws, double min_expected, std::uint32_t max_cells) {
  require_rule(probability, draws, min_expected);
  require_same_size("group_of", group_of.size(), "probability", probability.size());
  std::vector<CompensatedSum> sums;
  for (std::size_t i = 0; i < probability.size(); ++i) {
    const std::uint32_t group = group_of[i];
    if (group >= kMaxGroups) {
      throw std::invalid_argument(
          fmt::format("group_of[{}] is {}; it must be in [0, {})", i, group, kMaxGroups));
    }
    if (group >= sums.size()) sums.resize(group + 1);
    sums[group].add(probability[i]);
  }
  std::vector<double> masses;
  for (const CompensatedSum& sum : sums) masses.push_back(sum.value());
  Cells cells = close_cells(masses, static_cast<double>(draws), min_expected, max_cells);
  std::vector<std::uint32_t> cell_of(probability.size(), kNoCell);
  for (std::size_t i = 0; i < probability.size(); ++i) {
    if (probability[i] > 0) cell_of[i] = cells.cell_of[group_of[i]];
  }
  return finish(std::move(cell_of), std::move(cells.probability), draws);
}

PooledCounts pool_counts(const Pooling& pooling, std::span<const std::uint64_t> counts) {
  require_same_size("counts", counts.size(), "pooling.cell_of", pooling.cell_of.size());
  PooledCounts pooled{std::vector<std::uint64_t>(pooling.probability.size(), 0), 0};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::uint32_t cell = pooling.cell_of[i];
    (cell == kNoCell ? pooled.outside : pooled.counts[cell]) += counts[i];
  }
  return pooled;
}

}  // namespace fairdraw::statistics
