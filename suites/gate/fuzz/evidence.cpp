// A bet on the probability of a group of cells has the prior Beta(kappa p, kappa (1 - p)). After x
// of n draws in the group, its value is given by this formula.
//
//     E = B(kappa p + x, kappa (1 - p) + n - x) / (B(kappa p, kappa (1 - p)) p^x (1 - p)^(n - x)),
//
// The expectation of the bet under p is 1 for every n, and the bet is a martingale in n. Every mean
// of such bets, with weights that are fixed beforehand, has the same properties. A small kappa
// detects large discrepancies early, and a large kappa detects small discrepancies later. The mean
// over four values of kappa, which differ by factors of 32, loses at most ln 4 against the best of
// them.
//
// The true probability p' of a group may differ from p by at most `slack`. In this case, each draw
// is at most 1 + slack / min(p, 1 - p) times as likely under p' as under p. The bet is divided by
// this factor for every draw, so that its expectation under p' is at most 1.
#include "suites/gate/fuzz/evidence.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "harness/statistics/compensated_sum.h"

namespace fairdraw::suites::fuzz {
namespace {

constexpr double kConcentrations[] = {32, 1024, 32768, 1048576};
constexpr std::size_t kMaxCells = 4096;  // with at most so many cells, each cell has a bet of its
                                         // own

double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);  // lgamma_r is used because std::lgamma writes a global variable
}

// The logarithm of a weighted mean of e^terms, with weights that sum to 1.
class LogMean {
 public:
  void add(double weight, double log_value) { terms_.push_back(std::log(weight) + log_value); }
  double value() const {
    if (terms_.empty()) return 0;
    const double largest = *std::max_element(terms_.begin(), terms_.end());
    double sum = 0;
    for (const double term : terms_) sum += std::exp(term - largest);
    return largest + std::log(sum);
  }

 private:
  std::vector<double> terms_;
};

struct Group {
  double probability = 0;
  std::uint64_t count = 0;
};

// Returns ln of the mean of the bets over all values of kappa. A group of probability 0 or 1 has no
// bet, because its draws are certain.
double log_bet(const Group& group, std::uint64_t draws, double slack) {
  const double p = group.probability, q = 1 - p;
  if (!(p > 0) || !(q > 0)) return 0;
  const auto x = static_cast<double>(group.count);
  const double rest = static_cast<double>(draws) - x;
  const double n = static_cast<double>(draws);
  LogMean mean;
  for (const double kappa : kConcentrations) {
    const double a = kappa * p, b = kappa * q;
    const double ratio = log_gamma(a + x) - log_gamma(a) + log_gamma(b + rest) - log_gamma(b) -
                         log_gamma(kappa + n) + log_gamma(kappa);
    mean.add(0.25, ratio - x * std::log(p) - rest * std::log1p(-p));
  }
  return mean.value() - n * std::log1p(slack / std::min(p, q));
}

// Returns ln of the bet on the whole distribution, with the prior Dirichlet(kappa p) instead of the
// beta prior.
double log_dirichlet_bet(const DistributionCells& distribution,
                         std::span<const std::uint64_t> counts, std::uint64_t draws) {
  const auto n = static_cast<double>(draws);
  double smallest = 1;
  for (const double p : distribution.probability)
    smallest = p > 0 ? std::min(smallest, p) : smallest;
  LogMean mean;
  for (const double kappa : kConcentrations) {
    double ratio = log_gamma(kappa) - log_gamma(kappa + n);
    for (std::size_t cell = 0; cell < counts.size(); ++cell) {
      if (counts[cell] == 0) continue;
      const double alpha = kappa * distribution.probability[cell];
      const auto x = static_cast<double>(counts[cell]);
      ratio +=
          log_gamma(alpha + x) - log_gamma(alpha) - x * std::log(distribution.probability[cell]);
    }
    mean.add(0.25, ratio);
  }
  return mean.value() - n * std::log1p(distribution.slack / smallest);
}

template <class Member>
Group group_of(const DistributionCells& distribution, std::span<const std::uint64_t> counts,
               Member member) {
  statistics::CompensatedSum probability;
  Group group;
  for (std::size_t cell = 0; cell < counts.size(); ++cell) {
    if (!member(cell)) continue;
    probability.add(distribution.probability[cell]);
    group.count += counts[cell];
  }
  group.probability = probability.value();
  return group;
}

// Returns groups of cells that are typical of bugs.
std::vector<Group> structural_groups(const DistributionCells& distribution,
                                     std::span<const std::uint64_t> counts) {
  std::vector<Group> groups;
  const std::size_t cells = counts.size();
  for (std::size_t modulus = 2; modulus <= 32 && modulus < cells; modulus *= 2) {
    for (std::size_t lane = 0; lane < modulus; ++lane) {
      groups.push_back(
          group_of(distribution, counts, [=](std::size_t cell) { return cell % modulus == lane; }));
    }
  }
  std::vector<std::size_t> order(cells), place(cells);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&distribution](std::size_t a, std::size_t b) {
    return distribution.probability[a] > distribution.probability[b];
  });
  for (std::size_t rank = 0; rank < cells; ++rank) place[order[rank]] = rank;
  for (std::size_t size = 1; size < cells; size *= 2) {
    groups.push_back(
        group_of(distribution, counts, [&](std::size_t cell) { return place[cell] < size; }));
    groups.push_back(group_of(distribution, counts, [=](std::size_t cell) { return cell < size; }));
    groups.push_back(
        group_of(distribution, counts, [=](std::size_t cell) { return cell >= cells - size; }));
  }
  return groups;
}

}  // namespace

double log_evidence(const DistributionCells& distribution, std::span<const std::uint64_t> counts) {
  const std::uint64_t draws = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  if (draws == 0) return 0;
  for (std::size_t cell = 0; cell < counts.size(); ++cell) {
    if (counts[cell] > 0 && distribution.probability[cell] == 0) {
      return std::numeric_limits<double>::infinity();
    }
  }
  // The whole distribution, the groups and the single cells each get a third of the stake.
  LogMean mean;
  mean.add(1.0 / 3, log_dirichlet_bet(distribution, counts, draws));
  const std::vector<Group> groups = structural_groups(distribution, counts);
  const bool single_cells = counts.size() <= kMaxCells;
  const double stake = single_cells ? 1.0 / 3 : 2.0 / 3;
  for (const Group& group : groups) {
    mean.add(stake / static_cast<double>(groups.size()), log_bet(group, draws, distribution.slack));
  }
  for (std::size_t cell = 0; single_cells && cell < counts.size(); ++cell) {
    const Group single = {distribution.probability[cell], counts[cell]};
    mean.add(1.0 / 3 / static_cast<double>(counts.size()),
             log_bet(single, draws, distribution.slack));
  }
  return mean.value();
}

}  // namespace fairdraw::suites::fuzz
