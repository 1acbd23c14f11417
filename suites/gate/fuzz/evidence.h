// Evidence against a distribution from drawn counts: an e-value, which may be inspected after every
// draw (Ville's inequality: a correct sampler ever reaches E >= 1/alpha with probability at most
// alpha).
#pragma once

#include <cstdint>
#include <span>

namespace fairdraw::suites::fuzz {

/// A distribution over cells, and its tolerance: for a correct sampler the probability of every
/// cell, and of every group of cells, is off by at most `slack`.
struct DistributionCells {
  std::span<const double> probability;  ///< [cells], sum 1
  double slack = 0;
};

/// Returns ln of an e-value of independent draws: the mean of many bets, each the marginal
/// likelihood under an alternative over that under the distribution. The bets are on each cell (if
/// there are at most 4096), on the classes of ids modulo 2 to 32, on the most likely cells, on the
/// first and the last ids (all with a beta mixture), and on the whole distribution (Dirichlet
/// mixture). Returns +infinity if a cell of probability 0 was drawn, and 0 without draws.
double log_evidence(const DistributionCells& distribution, std::span<const std::uint64_t> counts);

}  // namespace fairdraw::suites::fuzz
