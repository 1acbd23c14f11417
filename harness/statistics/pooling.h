// Pooling: which tokens share a cell. A rule on the target distribution alone, fixed before any
// draw.
//
// A rule that looked at the counts would choose the cells in which noise looks largest (or hide
// the token that is never drawn), and no null distribution would be known for it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fairdraw::statistics {

/// Cell of a token that has none: its probability is 0, and drawing it once is a failure.
inline constexpr std::uint32_t kNoCell = 0xffffffffU;

struct Pooling {
  std::vector<std::uint32_t> cell_of;  ///< [vocab] cell of each token; kNoCell for probability 0
  std::vector<double> probability;     ///< [cells], sums to 1
  double smallest_expected = 0;        ///< over the cells, for the number of draws given
};

/// Sorts tokens by probability, largest first (ties by id), and closes a cell when its expected
/// count reaches `min_expected`; a rest that does not reach it joins the last cell. With
/// `max_cells` (0: no limit) a cell closes only when it also holds its share of what is left,
/// remaining mass / remaining cells, so that large tokens have a cell each and the tail is still
/// split.
Pooling pool_by_probability(std::span<const double> probability, std::uint64_t draws,
                            double min_expected, std::uint32_t max_cells = 0);

/// The same for groups of tokens that may not be torn apart (lane of a tile, id below 2^k):
/// `group_of` [vocab] gives each token's group, numbers below 2^20.
Pooling pool_by_group(std::span<const double> probability, std::span<const std::uint32_t> group_of,
                      std::uint64_t draws, double min_expected, std::uint32_t max_cells = 0);

struct PooledCounts {
  std::vector<std::uint64_t> counts;  ///< [cells]
  std::uint64_t outside = 0;          ///< draws of tokens that have no cell
};
/// Adds up `counts` [vocab] by cell.
PooledCounts pool_counts(const Pooling& pooling, std::span<const std::uint64_t> counts);

}  // namespace fairdraw::statistics
