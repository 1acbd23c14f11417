// Evidence against a distribution, computed from the counts of draws. The evidence is an e-value,
// which may be looked at after every draw: a correct sampler ever reaches E >= 1/alpha with a
// probability of at most alpha (Ville's inequality).
#pragma once

#include <cstdint>
#include <span>

namespace fairdraw::suites::fuzz {

/// A distribution over cells, with a tolerance. For a correct sampler, the probability of every
/// cell, and of every group of cells, is off by at most `slack`.
struct DistributionCells {
  std::span<const double> probability;  ///< [cells], sum 1
  double slack = 0;
};

/// Returns ln of an e-value of independent draws. The e-value is the mean of many bets, and each
/// bet is the marginal likelihood under an alternative divided by the likelihood under the
/// distribution. There are bets on each cell (if there are at most 4096), on the classes of ids
/// modulo 2 to 32, on the most likely cells, and on the first and the last ids (all with a beta
/// mixture). One bet is on the whole distribution (with a Dirichlet mixture). Returns +infinity if
/// a cell of probability 0 was drawn, and 0 if there are no draws.
double log_evidence(const DistributionCells& distribution, std::span<const std::uint64_t> counts);

}  // namespace fairdraw::suites::fuzz
