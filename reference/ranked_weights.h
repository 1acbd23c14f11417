// A ranked row of the real-number oracle: tokens sorted by value, with real weights and their
// errors.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/real_oracle.h"

namespace fairdraw::reference {

/// The lengths of three prefixes of the ranking: tokens that min_p certainly keeps, keeps in exact
/// arithmetic, and possibly keeps.
struct MinPPrefixes {
  std::size_t certain = 0, exact = 0, possible = 0;
};

/// The allowed tokens of a row, the largest value first and the lowest id first among equal values.
struct RankedWeights {
  std::vector<std::int32_t> id;
  std::vector<float> value;       ///< logit or probability; filters compare these values exactly
  Eigen::ArrayXd weight;          ///< from logits: 1 for the largest; from probabilities: the value
                                  ///< itself
  Eigen::ArrayXd tie_error;       ///< relative error; two weights within the sum of their errors
                                  ///< may tie
  std::vector<long double> mass;  ///< [size + 1] sum of the weights before each token
  std::vector<long double> mass_error;  ///< [size + 1] bound on the error of a sampler's sum in
                                        ///< place of `mass`
  /// Two more errors of every sum, as fractions of the row's sum: a sampler's error, and the
  /// oracle's own error in `mass`.
  double sampler_slack = 0, own_slack = 0;
  MinPPrefixes min_p;

  std::size_t size() const { return id.size(); }
  double sum_slack() const { return sampler_slack + own_slack; }
  double weight_at(std::size_t i) const { return weight[static_cast<Eigen::Index>(i)]; }
  /// True if a sampler may treat the two weights as equal; equal values always count as tied.
  bool may_tie(std::size_t i, std::size_t j) const;
};

/// Ranks a row of logits, without banned tokens and logits of -inf. Precondition:
/// `temperature` > 0.
RankedWeights rank_logits(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                          double temperature, double min_p, const Semantics& semantics,
                          const WeightBound& bound);

/// Ranks a row of probabilities, without tokens of probability 0.
RankedWeights rank_probs(std::span<const float> probs, double min_p, const Semantics& semantics,
                         bool truncation);

}  // namespace fairdraw::reference
