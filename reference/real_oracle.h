// The real-number oracle computes, for any semantics profile, the distribution of a row in real
// arithmetic (float64 with error bounds), and says for each token whether the mask must contain it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/integer_model.h"
#include "reference/semantics.h"

namespace fairdraw::reference {

/// The membership of a token in the support: whether the token can be drawn. Any sampler within the
/// error bound must agree with the memberships `in` and `out`. An `ambiguous` token is closer to
/// the boundary than the error bound (or in a tie that the profile leaves open), and a sampler may
/// keep or drop it.
enum class Membership : std::uint8_t { out = 0, in = 1, ambiguous = 2 };

struct RealDistribution {
  bool defined = true;     ///< false if the profile says error or undefined for this input: every
                           ///< token is out, with probability 0
  bool must_fail = false;  ///< true if the row must be reported as failed, without a token
  std::vector<Membership> membership;  ///< [vocab] membership of each token in the support
  std::vector<double> probability;  ///< [vocab] the distribution, which sums to 1; ambiguous tokens
                                    ///< are decided as in exact arithmetic on the float64 values,
                                    ///< and of an open tie the lowest ids are in
  std::int32_t partly_drawn = -1;   ///< token of the support that is drawn with only a part of its
                                    ///< mass, so that the weight bound does not apply to its
                                    ///< frequency; -1: none
  double ambiguous_mass = 0;        ///< mass of the ambiguous tokens before renormalisation, as a
                                    ///< fraction of the kept mass
  double total_variation_bound = 0;  ///< maximum distance from `probability` of a sampler within
                                     ///< the weight bound, however it decides ambiguous tokens
  double largest = 1;                ///< maximum probability of a token in a sampler within the
                                     ///< weight bound
  std::int32_t support_low = 0, support_high = 0;  ///< range of the possible support sizes
  double log_normalizer = 0;  ///< ln sum exp((x - max) / T) over allowed tokens; T = 1 if
                              ///< temperature is 0

  /// True if the token is in the support and is drawn in proportion to its weight.
  bool has_frequency(std::size_t token) const {
    return membership[token] == Membership::in && static_cast<std::int64_t>(token) != partly_drawn;
  }
};

/// The bound on the relative error of a weight: constant + per_octave * |y| + unit * 2^|y|, where y
/// is the distance to the maximum in octaves. The default bound is that of fairdraw's kernels,
/// which compute weights by tiles (tile_bound.h derives the bound). Setting truncation = false
/// drops the last term, for samplers that work in float32: their weights below 2^-126 may be
/// flushed to zero.
struct WeightBound {
  double constant = 0x1p-22;
  double per_octave = 0x1p-24 * 0.69314718055994530942;
  bool truncation = true;
  double unit = 0x1p-48;                ///< maximum weight that may be dropped, if the row's
                                        ///< largest weight is 1
  double min_p_distance = 3 * 0x1p-24;  ///< relative error of the distances that min_p compares
  double at(double octaves) const;
};

/// Computes one row of logits in O(vocab log vocab). `allowed` has packed bits, or is empty if all
/// tokens are allowed. The function adds the profile's relative_weight_error to the bound; callers
/// must not add it.
RealDistribution real_oracle(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                             const RowParameters& parameters, const Semantics& semantics,
                             const WeightBound& bound = {});

/// Computes one row of probabilities, which are taken as exact and divided by their sum. The
/// temperature is not used. With `truncation`, weights have the error tile_prob_error
/// (tile_bound.h), as in fairdraw. A row has no ambiguous token if its tile_prob_error is 0, its
/// sum has at most 63 bits, and the profile allows no numeric error.
RealDistribution real_oracle_from_probs(std::span<const float> probs,
                                        const RowParameters& parameters, const Semantics& semantics,
                                        bool truncation = true);

}  // namespace fairdraw::reference
