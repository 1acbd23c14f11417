// Arithmetic of the filters by probability (fairdraw/logits_processing.h, step 9), the order in
// which a row's chain applies them, and the logits of adaptive_p, for host and device.
//
// One form for all filters. A filter turns sums over the tokens that are left into a description of
// the tokens that stay (KeptTokens): those whose weight reaches a threshold, and those whose logit
// lies in an interval. Only top_h needs a logarithm, of a sum. Let d be the distance of a
// logit to the largest logit, D the mean of d under the distribution, and H the entropy. Then
// -ln p = d + ln Z and H = D + ln Z, with the same Z, so that -ln p - H = d - D. The typical tokens
// are those whose logit is near the mean logit, and p >= sqrt(eta) exp(-H) means that d is at most
// D - ln(eta) / 2. The entropy of the tokens from the largest logit down to some logit grows with
// each token, so that top_h is a search for a radius, too, from the center 0.
//
// Numbers. The temperature is 1, or that of the chain, by which distances are divided. top_k and
// top_p of a chain look for a logit by the digits of its order. A token whose octave is s below
// that of the largest logit, with the significand m, has these values (common/tile_weights.h has s
// and m):
//   v = floor(m 2^(32 - s)), 0 if s >= 64      Z = sum v,         below 2^76
//   u = floor(m^2 2^(56 - 2 s)), 0 if s >= 52  Q = sum u,         below 2^124
//   q = floor(2^32 d), if v > 0                S = sum v q,       below 2^115
//   W = m 2^(32 - s), 0 if s >= 256            exact as a double
// So the sums are integers and do not depend on their order. D is S / Z / 2^32. A threshold for W
// is a product or a quotient of doubles, and is lowered by 2^-50 of itself, so that no rounding
// bans a token that lies at its threshold. The offset |d - D| is computed in double and rounded to
// float32; the radius of typical_p is one of these floats, which is found by its digits. An entropy
// is S / Z / 2^32 + ln(Z / W), each operation in double, where W is the weight of the largest
// logit; the logarithm is that of natural_log(). The radius of top_h is found by digits, too: for
// each digit, from the highest to the lowest, it is the first one whose tokens, with all nearer
// ones, have an entropy above the limit. The tokens of that last digit are dropped.
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
//   top_h                        the entropy of the tokens down to the token is within its error
//                                and a times that of H of a H; the error of an entropy of n tokens
//                                is A + B + 2^-32 (1 - p) + 2^-49 n, where p is the probability of
//                                the largest logit, and B the mean of e(d) + 2^-22 over all other
//                                tokens
//   xtc_threshold                p is within e(d) + e of the threshold, relatively, or so is a
//                                token that is not more probable
// reference/probability_filters.h judges by these bounds.
//
// adaptive_p reads p = v / Z, with Z rounded to the nearest double. Its logits are the doubles of
// their formula, operation by operation, and no product of it meets a sum that could contract with
// it. A probability is within (e(d) + e) p of the real one, and the formula is less steep than
// 100/3, so that a logit is within 100/3 p (e(d) + e) + 2^-20 of the real one; the second term is
// the rounding to float32, of a number from -21 to 5.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "common/float_order.h"
#include "common/host_device.h"
#include "common/min_p.h"
#include "common/parameters.h"
#include "common/tile_weights.h"
#include "common/top_n_sigma.h"
#include "common/wide_integers.h"
#include "fairdraw/logits_processing.h"

namespace fairdraw {

/// Returns whether every place of a chain has a step, up to the chain's end, and adaptive_p stands
/// nowhere but at its end.
FAIRDRAW_HOST_DEVICE inline bool is_filter_chain(std::uint64_t chain) {
  constexpr auto kOnlyLast = static_cast<std::uint64_t>(FilterStep::adaptive_p);
  while (chain != 0) {
    const std::uint64_t step = chain % (std::uint64_t{1} << kFilterStepBits);
    chain >>= kFilterStepBits;
    if (step == 0 || step > kFilterSteps || (step == kOnlyLast && chain != 0)) return false;
  }
  return true;
}

/// Returns whether a chain may have this temperature. A greedy request has no use for its chain's.
FAIRDRAW_HOST_DEVICE inline bool is_chain_temperature(float temperature) {
  return temperature >= kSmallestTemperature && temperature <= kLargestTemperature;
}

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

  /// Returns whether a filter is on, or the temperature follows what they leave. The threshold and
  /// the seed of xtc have no effect alone.
  FAIRDRAW_HOST_DEVICE bool are_on() const {
    return filter_chain != 0 || dynatemp_range != 0.0F || typical_p != 1.0F ||
           epsilon_cutoff != 0.0F || eta_cutoff != 0.0F || p_less != 0 || top_h != 1.0F ||
           xtc_probability != 0.0F;
  }
  /// Returns the steps in their order, as a chain.
  FAIRDRAW_HOST_DEVICE std::uint64_t steps() const {
    return filter_chain != 0 ? filter_chain : kOwnFilterChain;
  }

  /// Returns whether all parameters are in their ranges.
  FAIRDRAW_HOST_DEVICE bool are_valid() const {
    bool valid = is_filter_chain(filter_chain) && is_chain_temperature(chain_temperature) &&
                 chain_top_k >= -1 && is_in_range(chain_top_p) && is_in_range(chain_min_p) &&
                 is_up_to_largest(dynatemp_range) && is_up_to_largest(dynatemp_exponent) &&
                 adaptive_target >= -1 && adaptive_target <= 1;
#define FAIRDRAW_CHAIN_PARAMETER(type, name, neutral)
#define FAIRDRAW_PROBABILITY_FILTER(type, name, neutral) valid = valid && is_in_range(name);
#include "fairdraw/processing_parameters.inc"
    return valid;
  }

 private:
  /// A comparison with NaN is false.
  FAIRDRAW_HOST_DEVICE static bool is_in_range(float share) { return share >= 0 && share <= 1; }
  FAIRDRAW_HOST_DEVICE static bool is_in_range(std::int32_t on) { return on == 0 || on == 1; }
  FAIRDRAW_HOST_DEVICE static bool is_in_range(std::uint64_t /*seed*/) { return true; }
  FAIRDRAW_HOST_DEVICE static bool is_up_to_largest(float value) {
    return value >= 0 && value <= kLargestTemperature;
  }
};

/// Returns ln x for a normal double x of at least 1, by the series of min_p.h, with the same bits
/// on host and device. The error is below 2^-50 max(1, ln x).
FAIRDRAW_HOST_DEVICE inline double natural_log(double x) {
  const LogarithmParts log = logarithm_of(x);
  return log.exponent * 0x1.62e42fefa39efp-1 + 2.0 * log.s * log.series;
}

/// Token as the filters see it.
struct WeighedToken {
  std::uint32_t significand;
  std::uint32_t below;  ///< octaves below the largest logit, at most kWrittenOctaves
  double distance;      ///< to the largest logit, divided by the temperature
  float logit;

  FAIRDRAW_HOST_DEVICE std::uint64_t weight() const { return tile_weight(significand, below); }

  /// Returns the weight without the bits that weight() cuts off.
  FAIRDRAW_HOST_DEVICE double uncut_weight() const {
    if (below >= kWrittenOctaves) return 0.0;
    const auto unit =
        std::bit_cast<double>(static_cast<std::uint64_t>(1023 + kTileBits - below) << 52);
    return static_cast<double>(significand) * unit;
  }

  /// Returns the distance in steps of 2^-32, times the weight.
  FAIRDRAW_HOST_DEVICE uint128_t weighted_distance() const {
    const std::uint64_t v = weight();
    return v == 0 ? 0 : static_cast<uint128_t>(v) * static_cast<std::uint64_t>(distance * 0x1p32);
  }

  /// Returns the difference of the distance from a center, rounded to a finite float.
  FAIRDRAW_HOST_DEVICE float offset(double center) const {
    const double difference = std::fabs(distance - center);
    return difference < 0x1.fffffep127 ? static_cast<float>(difference) : 0x1.fffffep127F;
  }
};

/// Weights of the tokens of a row whose largest logit is given, at a temperature.
class TokenScale {
 public:
  FAIRDRAW_HOST_DEVICE TokenScale(float largest, float temperature)
      : scale_(logit_scale(temperature)),
        largest_(largest),
        temperature_(temperature),
        octave_(octaves_of(largest, scale_).whole) {}

  /// Returns the weight of the largest logit.
  FAIRDRAW_HOST_DEVICE double largest_weight() const {
    return static_cast<double>(tile_weight(octaves_of(largest_, scale_).significand, 0));
  }

  /// Returns the token of a finite logit.
  FAIRDRAW_HOST_DEVICE WeighedToken weigh(float logit) const {
    const Octaves octaves = octaves_of(logit, scale_);
    const double below = octave_ - octaves.whole;
    const bool is_near = below < static_cast<double>(kWrittenOctaves);
    double distance = static_cast<double>(largest_) - static_cast<double>(logit);
    if (temperature_ != 1.0F) distance /= static_cast<double>(temperature_);
    return {octaves.significand, is_near ? static_cast<std::uint32_t>(below) : kWrittenOctaves,
            distance, logit};
  }

 private:
  float scale_;
  float largest_;
  float temperature_;
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
    distances += token.weighted_distance();
  }

  FAIRDRAW_HOST_DEVICE void add(const ProbabilitySums& other) {
    weights += other.weights;
    squares += other.squares;
    distances += other.distances;
  }

  /// Returns the entropy of the distribution, in nats; `largest` is the largest logit's weight.
  FAIRDRAW_HOST_DEVICE double entropy(double largest) const {
    return mean_distance() + natural_log(nearest_double(weights) / largest);
  }

  /// Returns the mean distance to the largest logit under the distribution.
  FAIRDRAW_HOST_DEVICE double mean_distance() const {
    return nearest_double(distances) / nearest_double(weights) / 0x1p32;
  }

  /// Returns the weight of a token whose probability is sum p^2.
  FAIRDRAW_HOST_DEVICE double collision_weight() const {
    return nearest_double(squares) / nearest_double(weights) * kSquareUnits;
  }

 private:
  static constexpr int kSquareBits = 56;
  static constexpr double kSquareUnits = 0x1p8;  ///< a square in units of the square of a weight:
                                                 ///< 2 kTileBits - kSquareBits bits
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

/// Description of the tokens that xtc keeps.
struct FarTokens {
  double nearest = 0.0;  ///< tokens at least as far from the largest logit as this stay

  FAIRDRAW_HOST_DEVICE bool keeps(const WeighedToken& token) const {
    return token.distance >= nearest;
  }
};

/// Description of the tokens that top_k and top_p of a chain keep.
struct LargestTokens {
  std::int32_t least;  ///< order_key() of the smallest logit that stays

  FAIRDRAW_HOST_DEVICE bool keeps(const WeighedToken& token) const {
    return order_key(token.logit) >= least;
  }
};

/// Logits that adaptive_p gives the tokens that are left.
struct LogitsNearTarget {
  double target;
  double weights;  ///< sum over the tokens

  FAIRDRAW_HOST_DEVICE float of(const WeighedToken& token) const {
    const double p = static_cast<double>(token.weight()) / weights;
    const double d = std::fabs(p - target) / 0.3;
    return static_cast<float>(5.0 - 10.0 * d * d / (1.0 + d));
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

FAIRDRAW_HOST_DEVICE inline KeptTokens kept_by_min_p(float min_p, double largest) {
  KeptTokens kept;
  kept.weight = lowered(static_cast<double>(min_p) * largest);
  return kept;
}

/// Places of tokens by their offset from a center.
struct OffsetFrom {
  double center;

  FAIRDRAW_HOST_DEVICE std::uint32_t place(const WeighedToken& token) const {
    return std::bit_cast<std::uint32_t>(token.offset(center));
  }
  FAIRDRAW_HOST_DEVICE static std::uint64_t amount(const WeighedToken& token) {
    return token.weight();
  }
};

/// Places of tokens by their logits, the largest first.
struct LogitOrder {
  bool counts;  ///< a token has the amount 1, instead of its weight

  FAIRDRAW_HOST_DEVICE static std::uint32_t place(const WeighedToken& token) {
    return kLast - static_cast<std::uint32_t>(order_key(token.logit));
  }
  FAIRDRAW_HOST_DEVICE std::uint64_t amount(const WeighedToken& token) const {
    return counts ? 1 : token.weight();
  }
  /// Returns the tokens up to a place.
  FAIRDRAW_HOST_DEVICE static LargestTokens up_to(std::uint32_t place) {
    return {static_cast<std::int32_t>(kLast - place)};
  }

 private:
  static constexpr std::uint32_t kLast = 0x7fffffff;
};

/// Limit of typical_p, top_p and top_k: the first place is wanted up to which the tokens have an
/// amount.
class WantedAmount {
 public:
  FAIRDRAW_HOST_DEVICE explicit WantedAmount(uint128_t amount) : wanted_(amount) {}
  /// Begins with a share of the tokens' mass, in [0, 1].
  FAIRDRAW_HOST_DEVICE WantedAmount(float share, const ProbabilitySums& sums)
      : WantedAmount(nucleus_target(std::fabs(share), sums.weights)) {}  // -0 is 0

  /// Returns whether the place lies in a bin, and otherwise adds the bin to the nearer tokens.
  FAIRDRAW_HOST_DEVICE bool is_in(uint128_t amount, uint128_t /*distances*/) {
    if (amount >= wanted_) return true;
    wanted_ -= amount;
    return false;
  }
  static constexpr bool kNeedsDistances = false;

 private:
  uint128_t wanted_;  ///< amount that is still wanted of the bins of the next digit
};

/// Limit of top_h: the radius is wanted at which the tokens have too much entropy.
class EntropyLimit {
 public:
  /// Begins with the sums of all tokens and the weight of the largest logit.
  FAIRDRAW_HOST_DEVICE EntropyLimit(float top_h, const ProbabilitySums& sums, double largest)
      : most_(static_cast<double>(top_h) * sums.entropy(largest)), largest_(largest) {}

  FAIRDRAW_HOST_DEVICE bool is_in(uint128_t weight, uint128_t distances) {
    if (weight == 0) return false;
    ProbabilitySums with = nearer_;
    with.weights += weight;
    with.distances += distances;
    if (with.entropy(largest_) > most_) return true;
    nearer_ = with;
    return false;
  }
  static constexpr bool kNeedsDistances = true;

 private:
  ProbabilitySums nearer_;
  double most_, largest_;
};

/// Search for the first place at which a limit is reached, from the highest digit to the lowest.
/// For each digit, the caller adds the amounts of all tokens, and their distances if the limit
/// needs them, to kBins bins.
template <class Limit>
class PlaceSearch {
 public:
  static constexpr int kDigitBits = 8;
  static constexpr int kDigits = 4;
  static constexpr std::uint32_t kBins = 1U << kDigitBits;
  static constexpr std::uint32_t kNoBin = kBins;
  static constexpr bool kNeedsDistances = Limit::kNeedsDistances;

  FAIRDRAW_HOST_DEVICE explicit PlaceSearch(const Limit& limit) : limit_(limit) {}

  /// Returns the bin of a token with this place, or kNoBin if a higher digit decides.
  FAIRDRAW_HOST_DEVICE std::uint32_t bin_of(std::uint32_t place) const {
    return (static_cast<std::uint64_t>(place) >> (shift_ + kDigitBits)) == prefix_
               ? (place >> shift_) % kBins
               : kNoBin;
  }

  /// Chooses the digit, from the sums in the bins; amount_in(bin) and distances_in(bin) return an
  /// uint128_t.
  template <class AmountIn, class DistancesIn>
  FAIRDRAW_HOST_DEVICE void choose(const AmountIn& amount_in, const DistancesIn& distances_in) {
    std::uint32_t bin = 0;
    while (bin + 1 < kBins && !limit_.is_in(amount_in(bin), distances_in(bin))) ++bin;
    prefix_ = prefix_ << kDigitBits | bin;
    shift_ -= kDigitBits;
  }

  /// Returns the place, after the last digit; the last of all places if the limit is not reached.
  FAIRDRAW_HOST_DEVICE std::uint32_t place() const { return static_cast<std::uint32_t>(prefix_); }

 private:
  Limit limit_;
  std::uint64_t prefix_ = 0;
  int shift_ = (kDigits - 1) * kDigitBits;
};

/// Returns the largest float below the radius at a place, or 0 for 0. If no token has too much
/// entropy, the radius is no finite number, and all tokens stay.
FAIRDRAW_HOST_DEVICE inline float below_radius(std::uint32_t place) {
  if (place >= 0x7f800000U) return 0x1.fffffep127F;
  return std::bit_cast<float>(place > 0 ? place - 1U : 0U);
}

/// Returns whether a step may ban tokens or change their logits.
FAIRDRAW_HOST_DEVICE inline bool may_change(FilterStep step, const ProbabilityFilters& filters,
                                            float top_n_sigma) {
  switch (step) {
    case FilterStep::top_n_sigma:
      return top_n_sigma_is_on(top_n_sigma);
    case FilterStep::typical_p:
      return filters.typical_p != 1.0F;
    case FilterStep::epsilon_cutoff:
      return filters.epsilon_cutoff != 0.0F;
    case FilterStep::eta_cutoff:
      return filters.eta_cutoff != 0.0F;
    case FilterStep::p_less:
      return filters.p_less != 0;
    case FilterStep::top_h:
      return filters.top_h != 1.0F;
    case FilterStep::xtc:
      return filters.xtc_probability != 0.0F;
    case FilterStep::temperature:
      return false;
    case FilterStep::top_k:
      return filters.chain_top_k > 0;
    case FilterStep::top_p:
      return filters.chain_top_p != 1.0F;
    case FilterStep::min_p:
      return filters.chain_min_p != 0.0F;
    case FilterStep::adaptive_p:
      return filters.adaptive_target >= 0.0F;
  }
  return false;
}

/// Step after the last one of a chain.
inline constexpr FilterStep kEndOfChain{};

/// Applies one step to the tokens that the steps before it left. `row` has sums(), the sums over
/// these tokens; tokens(), their number; largest_weight(), the weight of the largest logit;
/// find(order, search), which completes a search; farthest(kept), the largest distance of a token
/// that would stay; keep(kept); keep_top_n_sigma(n); and replace(logits), which gives the tokens
/// other logits. Each of them is called at one place, if it can be: a GPU has its code as often as
/// it is called. At the end of the chain, returns the entropy as a share of that of as many equal
/// tokens.
template <class Row>
FAIRDRAW_HOST_DEVICE double apply_step(FilterStep step, const ProbabilityFilters& filters,
                                       float top_n_sigma, Row&& row) {
  if (step == FilterStep::top_n_sigma) {
    row.keep_top_n_sigma(top_n_sigma);
    return 1.0;
  }
  const bool counts = step == FilterStep::top_k;
  ProbabilitySums sums;
  if (!counts && step != FilterStep::min_p) sums = row.sums();
  if (step == kEndOfChain) {
    const auto tokens = static_cast<double>(row.tokens());
    if (tokens < 2.0) return 1.0;
    const double share = sums.entropy(row.largest_weight()) / natural_log(tokens);
    if (!(share > 0.0)) return 0.0;  // rounding may give less
    return share < 1.0 ? share : 1.0;
  }
  if (counts || step == FilterStep::top_p) {
    const WantedAmount wanted = counts ? WantedAmount(static_cast<uint128_t>(filters.chain_top_k))
                                       : WantedAmount(filters.chain_top_p, sums);
    row.keep(LogitOrder::up_to(row.find(LogitOrder{counts}, PlaceSearch(wanted))));
    return 1.0;
  }
  if (step == FilterStep::adaptive_p) {
    row.replace(LogitsNearTarget{static_cast<double>(filters.adaptive_target),
                                 nearest_double(sums.weights)});
    return 1.0;
  }
  if (step == FilterStep::xtc) {
    row.keep(FarTokens{row.farthest(kept_by_epsilon(filters.xtc_threshold, sums))});
    return 1.0;
  }
  KeptTokens kept;
  if (step == FilterStep::typical_p) {
    kept.center = sums.mean_distance();
    const WantedAmount wanted(filters.typical_p, sums);
    kept.radius = std::bit_cast<float>(row.find(OffsetFrom{kept.center}, PlaceSearch(wanted)));
  } else if (step == FilterStep::epsilon_cutoff) {
    kept = kept_by_epsilon(filters.epsilon_cutoff, sums);
  } else if (step == FilterStep::eta_cutoff) {
    kept = kept_by_eta(filters.eta_cutoff, sums);
  } else if (step == FilterStep::p_less) {
    kept = kept_by_p_less(sums);
  } else if (step == FilterStep::top_h) {
    const EntropyLimit limit(filters.top_h, sums, row.largest_weight());
    kept.radius = below_radius(row.find(OffsetFrom{0.0}, PlaceSearch(limit)));
  } else {
    kept = kept_by_min_p(filters.chain_min_p, row.largest_weight());
  }
  row.keep(kept);
  return 1.0;
}

/// Applies the filters that are on, in the order of the row's chain. Returns the share of the
/// entropy that the row's temperature follows, and 1 if it does not. `row` also has
/// set_temperature(), for the steps after that of the temperature.
template <class Row>
FAIRDRAW_HOST_DEVICE double apply_filters(const ProbabilityFilters& filters, float top_n_sigma,
                                          Row&& row) {
  double share = 1.0;
  std::uint64_t chain = filters.steps();
  bool is_end = false;
  while (!is_end) {
    is_end = chain == 0;
    const auto step = static_cast<FilterStep>(chain % (std::uint64_t{1} << kFilterStepBits));
    if (step == FilterStep::temperature) row.set_temperature(filters.chain_temperature);
    if (is_end) row.set_temperature(1.0F);
    const bool acts =
        is_end ? filters.dynatemp_range != 0.0F : may_change(step, filters, top_n_sigma);
    if (acts) share = apply_step(step, filters, top_n_sigma, row);
    chain >>= kFilterStepBits;
  }
  return share;
}

}  // namespace fairdraw
