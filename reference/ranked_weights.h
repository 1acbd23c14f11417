// The row of the real-number oracle: tokens ranked by value, with real weights and their errors.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/real_oracle.h"

namespace fairdraw::reference {

/// Lengths of the prefix of the ranking that min_p keeps: certainly, in exact arithmetic, possibly.
struct MinPPrefixes {
  std::size_t certain = 0, exact = 0, possible = 0;
};

/// The allowed tokens, largest first, lowest id among equals.
struct RankedWeights {
  std::vector<std::int32_t> id;
  std::vector<float> value;       ///< logit or probability, which filters compare exactly
  Eigen::ArrayXd weight;          ///< logits: 1 for the largest; otherwise the probability
  Eigen::ArrayXd tie_error;       ///< relative; two weights within the sum of their errors may tie
  std::vector<long double> mass;  ///< [size + 1] sum of the weights before each token
  std::vector<long double> mass_error;  ///< [size + 1] bound on a sampler's error of `mass`
  /// Further errors of every sum, as fractions of the row's sum: a sampler's, and the oracle's own
  /// in `mass`.
  double sampler_slack = 0, own_slack = 0;
  MinPPrefixes min_p;

  std::size_t size() const { return id.size(); }
  double sum_slack() const { return sampler_slack + own_slack; }
  double weight_at(std::size_t i) const { return weight[static_cast<Eigen::Index>(i)]; }
  /// True if a sampler may treat the two weights as equal; always so for equal values.
  bool may_tie(std::size_t i, std::size_t j) const;
};

/// Ranks logits. Banned tokens and logits of -inf are left out. Precondition: `temperature` > 0.
RankedWeights rank_logits(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                          double temperature, double min_p, const Semantics& semantics,
                          const WeightBound& bound);

/// Ranks probabilities. Tokens of probability 0 are left out.
RankedWeights rank_probs(std::span<const float> probs, double min_p, const Semantics& semantics,
                         bool truncation);

}  // namespace fairdraw::reference
