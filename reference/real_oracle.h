// The real-number oracle: the law of a row in real arithmetic (float64 with error bounds), for
// any semantics profile, and for each token whether the mask must hold it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/integer_model.h"
#include "reference/semantics.h"

namespace fairdraw::reference {

/// in, out: any sampler within the bound must agree. ambiguous: closer to the boundary than the
/// bound (or a tie that the profile leaves open), both are right.
enum class Membership : std::uint8_t { out = 0, in = 1, ambiguous = 2 };

struct RealLaw {
  bool defined = true;     ///< false: the profile says error or undefined for this input
  bool must_fail = false;  ///< the row must be reported as failed (and give no token)
  std::vector<Membership> membership;  ///< [vocab]
  std::vector<double> probability;     ///< [vocab] the law with ambiguous tokens decided as in
                                       ///< exact arithmetic on the float64 values; sums to 1
  double ambiguous_mass = 0;  ///< mass of ambiguous tokens before renormalisation, over kept mass
  double total_variation_bound = 0;  ///< distance of a sampler within the weight bound from it
  std::int32_t support_low = 0, support_high = 0;  ///< range of the support size
  double log_normalizer = 0;  ///< ln sum exp((x - max) / T) over allowed tokens
};

/// The bound on relative weight errors: constant + per_octave * |y| + 2^(|y| - 40) where y is the
/// distance to the maximum in octaves. For fairdraw's kernels: 2^-21, 3 * 2^-24 * ln 2.
struct WeightBound {
  double constant = 0x1p-21;
  double per_octave = 3 * 0x1p-24 * 0.69314718055994530942;
  bool truncation = true;
  double at(double octaves) const;
};

RealLaw real_oracle(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                    const RowParameters& parameters, const Semantics& semantics,
                    const WeightBound& bound = {});

}  // namespace fairdraw::reference
