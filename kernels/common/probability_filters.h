// Arithmetic of the filters by probability (fairdraw/logits_processing.h, step 9), for host and
// device.
//
// One form for all filters. A filter turns sums over the tokens that are left into a description of
// the tokens that stay (KeptTokens): those whose weight reaches a threshold, and those whose logit
// lies in an interval. No filter needs a logarithm of a probability. Let d be the distance of a
// logit to the largest logit, D the mean of d under the distribution, and H the entropy. Then
// -ln p = d + ln Z and H = D + ln Z, with the same Z, so that -ln p - H = d - D. The typical tokens
// are those whose logit is near the mean logit, and p >= sqrt(eta) exp(-H) means that d is at most
// D - ln(eta) / 2.
//
// Numbers. The temperature is 1. A token whose octave is s below that of the largest logit, with
// the significand m, has these values (common/tile_weights.h has s and m):
//   v = floor(m 2^(32 - s)), 0 if s >= 64      Z = sum v,         below 2^76
//   u = floor(m^2 2^(56 - 2 s)), 0 if s >= 52  Q = sum u,         below 2^124
//   q = floor(2^32 d), if v > 0                S = sum v q,       below 2^115
//   W = m 2^(32 - s), 0 if s >= 256            exact as a double
// So the sums are integers and do not depend on their order. D is S / Z / 2^32. A threshold for W
// is a product or a quotient of doubles, and is lowered by 2^-50 of itself, so that no rounding
// bans a token that lies at its threshold. The offset |d - D| is computed in double and rounded to
// float32; the radius of typical_p is one of these floats, which is found by its digits.
//
// Error. Let e(d) = 2^-22 + 2^-24 d be the error of a weight (common/tile_weights.h), and e the
// mean of e(d). To first order, this arithmetic decides as real numbers do, except for tokens as
// near to a boundary as this:
//   epsilon_cutoff, eta_cutoff   p is within e(d) + e of its threshold, relatively
//   p_less                       p is within e(d) + 3 e of its threshold, relatively
//   eta_cutoff                   d is within A + 2^-22 (1 + D - ln(eta)) of D - ln(eta) / 2, where
//                                A is the mean of (e(d) + e) |d - D|
//   typical_p                    the mass that is nearer to D than the token is within 2 e of
//                                typical_p, if offsets that differ by less than
//                                2 A + 2^-23 |d - D| + 2^-31 count as equal
// reference/probability_filters.h judges by these bounds.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "common/host_device.h"
#include "common/min_p.h"
#include "common/tile_weights.h"
#include "common/wide_integers.h"
#include "fairdraw/logits_processing.h"

namespace fairdraw {

/// Parameters of the filters by probability of one row.
struct ProbabilityFilters {
#define FAIRDRAW_PROBABILITY_FILTER(type, name, neutral) type name = neutral;
#include "fairdraw/processing_parameters.inc"

  FAIRDRAW_HOST_DEVICE static ProbabilityFilters of(const LogitsProcessing& processing,
                                                    std::int64_t row) {
    ProbabilityFilters filters;
#define FAIRDRAW_PROBABILITY_FILTER(type, name, neutral) filters.name = processing.name.at(row);
#include "fairdraw/processing_parameters.inc"
    return filters;
  }

  FAIRDRAW_HOST_DEVICE bool are_on() const {
    bool on = false;
#define FAIRDRAW_PROBABILITY_FILTER(type, name, neutral) on = on || (name) != (neutral);
#include "fairdraw/processing_parameters.inc"
    return on;
  }

  /// Returns whether all parameters are in their ranges. A comparison with NaN is false.
  FAIRDRAW_HOST_DEVICE bool are_valid() const {
    bool valid = true;
#define FAIRDRAW_PROBABILITY_FILTER(type, name, neutral) \
  valid = valid && (name) >= 0 && (name) <= 1;
#include "fairdraw/processing_parameters.inc"
    return valid;
  }
};

/// Token as the filters see it.
struct WeighedToken {
  std::uint32_t significand;
  std::uint32_t below;  ///< octaves below the largest logit, at most kWrittenOctaves
  double distance;      ///< to the largest logit

  FAIRDRAW_HOST_DEVICE std::uint64_t weight() const { return tile_weight(significand, below); }

  /// Returns the weight without the bits that weight() cuts off.
  FAIRDRAW_HOST_DEVICE double uncut_weight() const {
    if (below >= kWrittenOctaves) return 0.0;
    const auto unit =
        std::bit_cast<double>(static_cast<std::uint64_t>(1023 + kTileBits - below) << 52);
    return static_cast<double>(significand) * unit;
  }

  /// Returns the difference of the distance from a center, rounded to a finite float.
  FAIRDRAW_HOST_DEVICE float offset(double center) const {
    const double difference = std::fabs(distance - center);
    return difference < 0x1.fffffep127 ? static_cast<float>(difference) : 0x1.fffffep127F;
  }
};

/// Weights of the tokens of a row whose largest logit is given.
class TokenScale {
 public:
  FAIRDRAW_HOST_DEVICE explicit TokenScale(float largest)
      : scale_(logit_scale(1.0F)), largest_(largest), octave_(octaves_of(largest, scale_).whole) {}

  /// Returns the token of a finite logit.
  FAIRDRAW_HOST_DEVICE WeighedToken weigh(float logit) const {
    const Octaves octaves = octaves_of(logit, scale_);
    const double below = octave_ - octaves.whole;
    const bool is_near = below < static_cast<double>(kWrittenOctaves);
    return {octaves.significand, is_near ? static_cast<std::uint32_t>(below) : kWrittenOctaves,
            static_cast<double>(largest_) - static_cast<double>(logit)};
  }

 private:
  float scale_;
  float largest_;
  double octave_;
};

/// Sums over the tokens that are left.
struct ProbabilitySums {
  uint128_t weights = 0, squares = 0, distances = 0;

  FAIRDRAW_HOST_DEVICE void add(const WeighedToken& token) {
    const std::uint64_t weight = token.weight();
    if (weight == 0) return;
    const std::uint64_t square = static_cast<std::uint64_t>(token.significand) * token.significand;
    const int shift = kSquareBits - 2 * static_cast<int>(token.below);
    weights += weight;
    if (shift >= 0) {
      squares += static_cast<uint128_t>(square) << shift;
    } else if (shift > -64) {
      squares += square >> -shift;
    }
    distances += static_cast<uint128_t>(weight) *
                 static_cast<std::uint64_t>(token.distance * kDistanceSteps);
  }

  FAIRDRAW_HOST_DEVICE void add(const ProbabilitySums& other) {
    weights += other.weights;
    squares += other.squares;
    distances += other.distances;
  }

  /// Returns the mean distance to the largest logit under the distribution.
  FAIRDRAW_HOST_DEVICE double mean_distance() const {
    return nearest_double(distances) / nearest_double(weights) / kDistanceSteps;
  }

  /// Returns the weight of a token whose probability is sum p^2.
  FAIRDRAW_HOST_DEVICE double collision_weight() const {
    return nearest_double(squares) / nearest_double(weights) * kSquareUnits;
  }

 private:
  static constexpr int kSquareBits = 56;
  static constexpr double kSquareUnits = 0x1p8;  ///< a square in units of the square of a weight:
                                                 ///< 2 kTileBits - kSquareBits bits
  static constexpr double kDistanceSteps = 0x1p32;  ///< steps per unit of a logit
};

/// Description of the tokens that a filter keeps. The largest logit has the offset 0 from the
/// center 0, so that filters with this center never empty a row.
struct KeptTokens {
  double weight = HUGE_VAL;  ///< tokens with at least this weight stay
  double center = 0.0;       ///< distance to the largest logit
  float radius = 0.0F;       ///< tokens with at most this offset from the center stay

  FAIRDRAW_HOST_DEVICE bool keeps(const WeighedToken& token) const {
    return token.offset(center) <= radius || token.uncut_weight() >= weight;
  }
};

/// Returns a threshold for weights that is lowered so far that no rounding bans a token at the
/// threshold.
FAIRDRAW_HOST_DEVICE inline double lowered(double weight) { return weight * (1.0 - 0x1p-50); }

FAIRDRAW_HOST_DEVICE inline KeptTokens kept_by_epsilon(float epsilon, const ProbabilitySums& sums) {
  KeptTokens kept;
  kept.weight = lowered(static_cast<double>(epsilon) * nearest_double(sums.weights));
  return kept;
}

FAIRDRAW_HOST_DEVICE inline KeptTokens kept_by_eta(float eta, const ProbabilitySums& sums) {
  constexpr double kHalfOfLn2 = 0x1.62e42fefa39efp-2;
  KeptTokens kept = kept_by_epsilon(eta, sums);
  const double farther = static_cast<double>(min_p_octaves(eta)) * kHalfOfLn2;
  kept.radius = static_cast<float>(sums.mean_distance() - farther);
  return kept;
}

FAIRDRAW_HOST_DEVICE inline KeptTokens kept_by_p_less(const ProbabilitySums& sums) {
  KeptTokens kept;
  kept.weight = lowered(sums.collision_weight());
  return kept;
}

/// Search for the radius of typical_p: the smallest offset within which the tokens have the mass
/// that is wanted. Offsets have the order of their bits, so that the search goes from the highest
/// digit to the lowest. For each digit, the caller adds the weights of all tokens to kBins bins.
class RadiusSearch {
 public:
  static constexpr int kDigitBits = 8;
  static constexpr int kDigits = 4;
  static constexpr std::uint32_t kBins = 1U << kDigitBits;
  static constexpr std::uint32_t kNoBin = kBins;

  /// Begins with the tokens' sums, for a typical_p in [0, 1].
  FAIRDRAW_HOST_DEVICE RadiusSearch(float typical_p, const ProbabilitySums& sums)
      : wanted_(nucleus_target(std::fabs(typical_p), sums.weights)) {}  // -0 is 0

  /// Returns the bin of a token with this offset, or kNoBin if a higher digit decides.
  FAIRDRAW_HOST_DEVICE std::uint32_t bin_of(float offset) const {
    const auto bits = std::bit_cast<std::uint32_t>(offset);
    return (static_cast<std::uint64_t>(bits) >> (shift_ + kDigitBits)) == prefix_
               ? (bits >> shift_) % kBins
               : kNoBin;
  }

  /// Chooses the digit, from the weights in the bins; weight_in(bin) returns an uint128_t.
  template <class WeightIn>
  FAIRDRAW_HOST_DEVICE void choose(const WeightIn& weight_in) {
    std::uint32_t bin = 0;
    for (; bin + 1 < kBins; ++bin) {
      const uint128_t weight = weight_in(bin);
      if (weight >= wanted_) break;
      wanted_ -= weight;
    }
    prefix_ = prefix_ << kDigitBits | bin;
    shift_ -= kDigitBits;
  }

  /// Returns the radius, after the last digit.
  FAIRDRAW_HOST_DEVICE float radius() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(prefix_));
  }

 private:
  uint128_t wanted_;  ///< mass that is still wanted of the bins of the next digit
  std::uint64_t prefix_ = 0;
  int shift_ = (kDigits - 1) * kDigitBits;
};

/// Applies the filters that are on, in the order of their steps. `row` has sums(), the sums over
/// the tokens that the filters before left; find_radius(center, search), which completes a search;
/// and keep(kept).
template <class Row>
FAIRDRAW_HOST_DEVICE void apply_filters(const ProbabilityFilters& filters, Row&& row) {
  if (filters.typical_p != 1.0F) {
    const ProbabilitySums sums = row.sums();
    KeptTokens kept;
    kept.center = sums.mean_distance();
    kept.radius = row.find_radius(kept.center, RadiusSearch(filters.typical_p, sums));
    row.keep(kept);
  }
  if (filters.epsilon_cutoff != 0.0F) {
    row.keep(kept_by_epsilon(filters.epsilon_cutoff, row.sums()));
  }
  if (filters.eta_cutoff != 0.0F) row.keep(kept_by_eta(filters.eta_cutoff, row.sums()));
  if (filters.p_less != 0) row.keep(kept_by_p_less(row.sums()));
}

}  // namespace fairdraw
