// Evidence against a distribution from drawn counts: an e-value, which may be inspected as often as
// draws come in (Ville's inequality: a correct sampler ever reaches E >= 1/alpha with probability
// at most alpha).
#pragma once

#include <cstdint>
#include <span>

namespace fairdraw::suites::fuzz {

/// A distribution over cells, and how far from it a correct sampler may be: each cell's probability
/// is off by at most `slack` (the probability of a group of cells too).
struct DistributionCells {
  std::span<const double> probability;  ///< [cells], sum 1
  double slack = 0;
};

/// ln of an e-value of independent draws: the mean of many bets, each the marginal likelihood under
/// an alternative over that under the distribution. Bets are on each cell (where there are at most
/// 4096), on the classes of ids modulo 2 to 32, on the most likely cells, on the first and the last
/// ids (all with a beta mixture), and on the whole distribution (Dirichlet mixture). +infinity
/// where a cell of probability 0 was drawn. 0 draws: 0.
double log_evidence(const DistributionCells& distribution, std::span<const std::uint64_t> counts);

}  // namespace fairdraw::suites::fuzz
