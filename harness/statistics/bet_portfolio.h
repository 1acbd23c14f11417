// A mixture of many bets, each of which is directed at one set of tokens. Each bet says that the
// mass of one set of tokens is wrong; to make many bets costs the logarithm of their number.
//
// A test of the whole distribution needs draws in proportion to the square root of the number of
// cells, divided by the square of the distance. But a bug is often local, and affects one lane, one
// tile or the last token. A bet on that place alone finds the bug with a hundredth of the draws,
// and the mixture of some thousand such bets only loses ln(number of bets), about 9 of the 28 nats
// of a level of 1e-12.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/statistics/e_process.h"
#include "harness/statistics/token_sets.h"

namespace fairdraw::statistics {

/// A mixture of bets with the evidence E, which e_process.h defines. The bet on a set of mass p
/// (the smaller of the set and its complement) is q ~ Beta(kappa p, kappa (1 - p)), with 8 values
/// of kappa p from 1/8 (the set is never drawn, or drawn far too often) to 2^18 (the mass of the
/// set is off by 0.2 %). The weight of each TokenSets is divided equally over its sets, and then
/// over the values of kappa.
class BetPortfolio {
 public:
  /// Makes bets against `probability`, the target distribution [vocab], which may have zeros. Sets
  /// with a mass of 0, or above 1 - 1e-12, get no bet, and their weight goes to the other sets.
  BetPortfolio(std::span<const double> probability, std::vector<TokenSets> sets);

  /// Allows for a target distribution that is known only to within rounding: subtracts
  /// distribution_error_payment from each bet, for up to `draws` draws. The probability that a
  /// right sampler gains more than this from rounding, in any of the bets, is at most `rate`.
  /// `relative_error` [vocab] bounds the errors of the weights that make up the distribution; this
  /// function also accounts for dividing the weights by their sum.
  void allow_distribution_error(std::span<const double> relative_error, std::uint64_t draws,
                                double rate);

  /// Adds draws, given as counts per token [vocab]. Tokens of probability 0 must have no draws,
  /// because such a draw is a failure in itself and no bet.
  void add(std::span<const std::uint64_t> counts);

  std::uint64_t draws() const { return draws_; }
  std::size_t bets() const { return bets_.size(); }
  double log_e() const { return log_e_; }
  double max_log_e() const { return max_log_e_; }

  /// The set whose bets have gained most at the last add().
  struct Strongest {
    std::string name;  ///< name such as "lane of 32, number 5"
    std::uint64_t count = 0;
    double expected = 0;
    double log_e = 0;  ///< ln of the weighted part of E that the set has
  };
  Strongest strongest() const;

  /// Returns the number of sets whose bets reach ln E >= needed if none of `draws` draws falls into
  /// the set. A sampler that never draws such a set is certain to be found, whatever else it does.
  std::size_t losses_found(std::uint64_t draws, double needed) const;

 private:
  struct Bet {
    std::uint32_t family = 0, group = 0;
    double probability = 0, complement = 0;
    double log_probability = 0, log_complement = 0;
    double log_weight = 0;
    double payment = 0;
  };
  double log_e_of(const Bet& bet, double inside, double outside) const;

  std::vector<double> probability_;
  std::vector<TokenSets> sets_;
  std::vector<Bet> bets_;
  std::vector<std::vector<std::uint64_t>> counts_;  ///< [sets][group]
  std::uint64_t draws_ = 0;
  double log_e_ = 0, max_log_e_ = 0;
};

}  // namespace fairdraw::statistics
