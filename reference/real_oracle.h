// The real-number oracle: for any semantics profile, the distribution of a row in real arithmetic
// (float64 with error bounds), and for each token whether the mask must hold it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/integer_model.h"
#include "reference/semantics.h"

namespace fairdraw::reference {

/// Membership of a token in the support. For the memberships `in` and `out`, any sampler within the
/// bound must agree. An `ambiguous` token is closer to the boundary than the bound (or in a tie
/// that the profile leaves open), and both are right.
enum class Membership : std::uint8_t { out = 0, in = 1, ambiguous = 2 };

struct RealDistribution {
  bool defined = true;     ///< false: the profile says error or undefined for this input, and every
                           ///< token is out, of probability 0
  bool must_fail = false;  ///< whether the row must be reported as failed, without a token
  std::vector<Membership> membership;  ///< [vocab] membership in the support
  std::vector<double> probability;  ///< [vocab] the distribution, with ambiguous tokens decided as
                                    ///< in exact arithmetic on the float64 values (the lowest ids
                                    ///< of an open tie are in); sums to 1
  std::int32_t partly_drawn = -1;   ///< token of the support that is drawn with a part of its mass,
                                    ///< so its frequency is not known to within the weight bound;
                                    ///< -1: none
  double ambiguous_mass = 0;  ///< mass of ambiguous tokens before renormalisation, over the kept
                              ///< mass
  double total_variation_bound = 0;  ///< maximum distance from `probability` of a sampler within
                                     ///< the weight bound, however it decides ambiguous tokens
  double largest = 1;                ///< maximum probability of a token in such a sampler
  std::int32_t support_low = 0, support_high = 0;  ///< range of the support size
  double log_normalizer = 0;  ///< ln sum exp((x - max) / T) over allowed tokens; T = 1 if the
                              ///< temperature is 0

  /// True if the token is in the support and is drawn in proportion to its weight.
  bool has_frequency(std::size_t token) const {
    return membership[token] == Membership::in && static_cast<std::int64_t>(token) != partly_drawn;
  }
};

/// The bound on relative weight errors: constant + per_octave * |y| + unit * 2^|y|, where y is the
/// distance to the maximum in octaves. The default bound describes fairdraw's kernels, whose
/// weights are computed by tiles (tile_bound.h derives it). truncation = false drops the last term,
/// for samplers that work in float32: below 2^-126 their weights may be flushed to zero.
struct WeightBound {
  double constant = 0x1p-22;
  double per_octave = 0x1p-24 * 0.69314718055994530942;
  bool truncation = true;
  double unit = 0x1p-48;                ///< maximum dropped weight, if the row's largest is 1
  double min_p_distance = 3 * 0x1p-24;  ///< relative error of the distance that min_p compares
  double at(double octaves) const;
};

/// Computes one row of logits in O(vocab log vocab). `allowed` has packed bits, or is empty if all
/// tokens are allowed. The profile's relative_weight_error is added to the bound here; callers must
/// not add it.
RealDistribution real_oracle(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                             const RowParameters& parameters, const Semantics& semantics,
                             const WeightBound& bound = {});

/// Computes one row of probabilities, taken exactly and normalised by their sum. The temperature is
/// not used. With `truncation`, weights are off by tile_prob_error (tile_bound.h), as in fairdraw.
/// Rows in which tile_prob_error is 0, and whose sum has at most 63 bits, have no ambiguous token
/// under a profile without slack.
RealDistribution real_oracle_from_probs(std::span<const float> probs,
                                        const RowParameters& parameters, const Semantics& semantics,
                                        bool truncation = true);

}  // namespace fairdraw::reference
