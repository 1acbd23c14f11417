// Many directed bets at once: each says that the mass of one set of tokens is not what it should
// be, and together they cost the logarithm of their number.
//
// A test of the whole distribution needs draws in proportion to the root of the number of cells
// over the square of the distance. A bug has a place, though: one lane, one tile, the last token. A
// bet on that place alone finds it with a hundredth of the draws, and the mixture of some thousand
// such bets loses only ln(number of bets), about 9 nats of the 28 of a level of 1e-12.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/statistics/e_process.h"
#include "harness/statistics/token_sets.h"

namespace fairdraw::statistics {

/// A mixture of bets, see e_process.h for what E means. For a set of mass p (the smaller one of it
/// and its complement): q ~ Beta(kappa p, kappa (1 - p)), kappa p over 8 values from 1/8 (the set
/// is never drawn, or much too often) to 2^18 (its mass is off by 0.2 %). Weights: by those of the
/// TokenSets, then equal over the sets of each, then over kappa.
class BetPortfolio {
 public:
  /// `probability`: the target [vocab], zeros allowed. Sets of mass 0, or of all mass but 1e-12,
  /// get no bet; their weight goes to the others.
  BetPortfolio(std::span<const double> probability, std::vector<TokenSets> sets);

  /// For a target known to within rounding: takes distribution_error_payment off each bet, for up
  /// to `draws` draws; more with probability at most `rate` over all bets. `relative_error`
  /// [vocab], of the weights that the distribution is made of (normalising them is accounted for
  /// here).
  void allow_distribution_error(std::span<const double> relative_error, std::uint64_t draws,
                                double rate);

  /// More draws, by token [vocab]: none of a token of probability 0 (that is a failure by itself,
  /// and no bet).
  void add(std::span<const std::uint64_t> counts);

  std::uint64_t draws() const { return draws_; }
  std::size_t bets() const { return bets_.size(); }
  double log_e() const { return log_e_; }
  double max_log_e() const { return max_log_e_; }

  /// The set whose own bets have won most, by the last add().
  struct Strongest {
    std::string name;  ///< "lane of 32, number 5", "the last token"
    std::uint64_t count = 0;
    double expected = 0;
    double log_e = 0;  ///< with its weight: its part of E
  };
  Strongest strongest() const;

  /// How many of the sets reach ln E >= needed when none of `draws` draws falls into them. Certain:
  /// a sampler that never draws such a set is found, whatever else it does.
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
