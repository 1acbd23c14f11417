// Groups tokens into cells, by a rule that depends only on the target distribution and is fixed
// before any draw.
//
// A rule that used the counts would choose cells in which noise looks largest (or hide a token that
// is never drawn), and the null distribution of the test would not be known.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fairdraw::statistics {

/// The cell number of a token that is in no cell, because its probability is 0; a single draw of
/// such a token is a failure.
inline constexpr std::uint32_t kNoCell = 0xffffffffU;

struct Pooling {
  std::vector<std::uint32_t> cell_of;  ///< [vocab]; kNoCell for tokens of probability 0
  std::vector<double> probability;     ///< [cells], sums to 1
  double smallest_expected = 0;  ///< minimum expected count of a cell, for the number of draws
};

/// Sorts tokens by probability, largest first (ties by id), and closes a cell when the cell's
/// expected count reaches `min_expected`. If the remaining mass does not reach `min_expected`, it
/// joins the last cell. With `max_cells` (0: no limit) a cell closes only if it also has its share
/// of the remaining mass, remaining mass / remaining cells, so that large tokens get a cell each
/// and the tail is still split.
Pooling pool_by_probability(std::span<const double> probability, std::uint64_t draws,
                            double min_expected, std::uint32_t max_cells = 0);

/// Pools groups of tokens that must stay together (lane of a tile, ids below 2^k) in the same way:
/// `group_of` [vocab] is each token's group, a number below 2^20.
Pooling pool_by_group(std::span<const double> probability, std::span<const std::uint32_t> group_of,
                      std::uint64_t draws, double min_expected, std::uint32_t max_cells = 0);

struct PooledCounts {
  std::vector<std::uint64_t> counts;  ///< [cells]
  std::uint64_t outside = 0;          ///< draws of tokens that are in no cell
};
/// Sums `counts` [vocab] over the tokens of each cell.
PooledCounts pool_counts(const Pooling& pooling, std::span<const std::uint64_t> counts);

}  // namespace fairdraw::statistics
