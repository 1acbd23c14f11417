#include "reference/real_oracle.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "reference/ranked_weights.h"
#include "reference/real_filters.h"

namespace fairdraw::reference {
namespace {

// A profile's interpretation of the parameters.
struct Plan {
  enum class Outcome { distribution, must_fail, undefined };
  Outcome outcome = Outcome::distribution;
  bool greedy = false;             // true if the row gives the argmax of the logits
  bool greedy_of_weights = false;  // greedy because the nucleus has no mass
  bool uniform = false;
  double temperature = 1;
  std::optional<std::size_t> top_k;
  TopKTies top_k_ties = TopKTies::keep_all;
  std::optional<float> top_p;
  bool min_p = false;
};

bool in_unit_interval(float value) { return value >= 0 && value <= 1; }

bool temperature_within_range(float temperature, const Semantics& semantics) {
  if (temperature < 0) return semantics.temperature_below_zero == TemperatureBelowZero::greedy;
  return temperature == 0 || (temperature >= 0x1p-126F && temperature <= 0x1p64F);
}

bool within_ranges(const RowParameters& parameters, const Semantics& semantics) {
  const bool top_k_ends_at_minus_one = semantics.top_k_negative == TopKNegative::minus_one_off ||
                                       semantics.top_k_negative == TopKNegative::first_255;
  const bool top_p_off = parameters.top_p > 1 && semantics.top_p_above_one == TopPAboveOne::off;
  return temperature_within_range(parameters.temperature, semantics) &&
         (parameters.top_k >= -1 || !top_k_ends_at_minus_one) &&
         (top_p_off || in_unit_interval(parameters.top_p)) && in_unit_interval(parameters.min_p);
}

// True for temperatures above 0 that fairdraw refuses, and for NaN; engines may accept or refuse
// such temperatures.
bool is_extreme(const RowParameters& parameters, const Semantics& semantics) {
  const float temperature = parameters.temperature;
  const bool out_of_range = temperature > 0 && !temperature_within_range(temperature, semantics);
  return out_of_range || std::isnan(temperature) || std::isnan(parameters.top_p) ||
         std::isnan(parameters.min_p);
}

void plan_temperature(Plan& plan, float temperature, const Semantics& semantics) {
  if (temperature > 0)
    plan.temperature = std::max<double>(temperature, semantics.least_temperature);
  if (temperature < 0) {
    plan.greedy = true;
  } else if (temperature == 0) {
    switch (semantics.temperature_zero) {
      case TemperatureZero::greedy:
        plan.greedy = true;
        break;
      case TemperatureZero::clamped:
        plan.temperature = semantics.least_temperature;
        if (plan.temperature <= 0) plan.outcome = Plan::Outcome::undefined;
        break;
      case TemperatureZero::uniform:
        plan.uniform = true;
        break;
      case TemperatureZero::error:
        plan.outcome = Plan::Outcome::must_fail;
        break;
    }
  } else if (static_cast<double>(temperature) < semantics.greedy_below) {
    plan.greedy = true;
  }
}

void plan_top_k(Plan& plan, std::int32_t top_k, std::size_t vocab, const Semantics& semantics) {
  if (top_k == -1 && semantics.top_k_negative == TopKNegative::first_255) top_k = 255;
  if (top_k < 0) {
    if (semantics.top_k_negative == TopKNegative::error) plan.outcome = Plan::Outcome::must_fail;
    if (semantics.top_k_negative == TopKNegative::undefined) {
      plan.outcome = Plan::Outcome::undefined;
    }
  } else if (top_k == 0) {
    switch (semantics.top_k_zero) {
      case TopKZero::off:
        break;
      case TopKZero::greedy:
        plan.greedy = true;
        break;
      case TopKZero::error:
        plan.outcome = Plan::Outcome::must_fail;
        break;
      case TopKZero::undefined:
        plan.outcome = Plan::Outcome::undefined;
        break;
    }
  } else if (semantics.top_k_limit > 0 && top_k > semantics.top_k_limit) {
    plan.outcome = Plan::Outcome::must_fail;
  } else if (static_cast<std::size_t>(top_k) > vocab) {
    if (semantics.top_k_above_vocab == TopKAboveVocab::error) {
      plan.outcome = Plan::Outcome::must_fail;
    }
  } else if (top_k == 1 && semantics.top_k_one == TopKOne::greedy) {
    plan.greedy = true;
  } else {
    plan.top_k = static_cast<std::size_t>(top_k);
    plan.top_k_ties = semantics.top_k_ties;
    if (plan.top_k_ties == TopKTies::any_small_k) {
      const bool small = *plan.top_k <= kSmallK && vocab >= kSmallKVocab;
      plan.top_k_ties = small ? TopKTies::any_k : TopKTies::keep_all;
    }
  }
}

void plan_top_p(Plan& plan, float top_p, std::int32_t top_k, const Semantics& semantics) {
  if (top_p == 0) {
    switch (semantics.top_p_zero) {
      case TopPZero::off:
        break;
      case TopPZero::off_beside_top_k:
        plan.greedy_of_weights = top_k <= 0;
        break;
      case TopPZero::filter:
        plan.top_p = top_p;
        break;
      case TopPZero::greedy:
        plan.greedy_of_weights = true;
        break;
      case TopPZero::error:
        plan.outcome = Plan::Outcome::must_fail;
        break;
      case TopPZero::undefined:
        plan.outcome = Plan::Outcome::undefined;
        break;
    }
  } else if (top_p < 1 || (top_p == 1 && semantics.top_p_one == TopPOne::filter)) {
    plan.top_p = top_p;
  }
}

Plan make_plan(const RowParameters& parameters, std::size_t vocab, const Semantics& semantics) {
  Plan plan;
  if (!within_ranges(parameters, semantics)) {
    const bool is_open = semantics.invalid_parameter == InvalidParameter::undefined ||
                         (semantics.extremes_are_open && is_extreme(parameters, semantics));
    plan.outcome = is_open ? Plan::Outcome::undefined : Plan::Outcome::must_fail;
    return plan;
  }
  // Later calls override earlier ones, so that an error takes precedence over an undefined result.
  plan_top_p(plan, parameters.top_p, parameters.top_k, semantics);
  plan_top_k(plan, parameters.top_k, vocab, semantics);
  plan_temperature(plan, parameters.temperature, semantics);
  if (semantics.top_k_above_vocab == TopKAboveVocab::error_when_random && !plan.greedy &&
      parameters.top_k > 0 && static_cast<std::size_t>(parameters.top_k) > vocab) {
    plan.outcome = Plan::Outcome::must_fail;
  }
  plan.min_p = parameters.min_p > 0 && semantics.min_p_place != MinPPlace::none;
  if (plan.min_p && parameters.min_p == 1) {
    if (semantics.min_p_one == MinPOne::greedy) plan.greedy = true;
    // No token has a probability above the maximum, so no token is left.
    const bool nothing_stays = semantics.min_p_boundary == MinPBoundary::above && !plan.greedy;
    if (nothing_stays && plan.outcome == Plan::Outcome::distribution) {
      plan.outcome = Plan::Outcome::undefined;
    }
  }
  return plan;
}

RealDistribution no_distribution(std::size_t vocab, bool must_fail) {
  RealDistribution distribution;
  distribution.defined = false;
  distribution.must_fail = must_fail;
  distribution.membership.assign(vocab, Membership::out);
  distribution.probability.assign(vocab, 0.0);
  return distribution;
}

RealDistribution no_distribution(std::size_t vocab, const Plan& plan) {
  return no_distribution(vocab, plan.outcome == Plan::Outcome::must_fail);
}

// Returns the result for a row that has no distribution.
RealDistribution no_distribution(std::size_t vocab, const Semantics& semantics) {
  RealDistribution distribution =
      no_distribution(vocab, semantics.nan_logit == NanLogit::row_error);
  if (semantics.nan_logit == NanLogit::last_token && vocab > 0) {
    distribution.defined = true;
    distribution.membership.back() = Membership::in;
    distribution.probability.back() = 1;
    distribution.support_low = distribution.support_high = 1;
  }
  return distribution;
}

// The tokens that the filters keep, and the tokens whose mass top_p used.
struct Filtered {
  Cut kept, base;
};

bool is_joint(const Plan& plan, const Semantics& semantics) {
  return semantics.top_p_base == TopPBase::joint ||
         (semantics.top_p_base == TopPBase::joint_without_min_p && !plan.min_p);
}

Filtered filter(const RankedWeights& row, const Plan& plan, const Semantics& semantics) {
  const Cut whole = whole_row(row);
  if (plan.greedy || plan.greedy_of_weights) {
    return {greedy_cut(row, semantics.greedy_ties, !plan.greedy), whole};
  }
  const Cut of_min_p = plan.min_p ? min_p_cut(row) : whole;
  const Cut of_top_k =
      plan.top_k ? top_k_cut(row, *plan.top_k, plan.top_k_ties, semantics.tie_counts_are_open)
                 : whole;

  // The filter top_k counts ranks, so it cuts at the same place with or without min_p before it.
  const bool min_p_first = semantics.min_p_place == MinPPlace::before_top_k;
  const bool joint = is_joint(plan, semantics);
  Cut base = min_p_first ? of_min_p : whole;
  if (!joint) base = intersection(base, of_top_k);
  const Cut of_top_p = plan.top_p ? top_p_cut(row, base, *plan.top_p, semantics) : base;

  Cut cut = intersection(intersection(of_top_p, of_top_k), of_min_p);
  // If two filters choose independently among the same tied tokens, fewer tokens may be kept by
  // both.
  if (joint && of_top_k.open() && of_top_p.open()) cut.count_low = cut.certain;
  const bool cuts = plan.top_k || plan.top_p;
  if (cuts && semantics.equal_row == EqualRow::may_stay && row.may_tie(0, row.size() - 1)) {
    cut.possible = of_min_p.possible;
    cut.count_high = of_min_p.count_high;
    cut.mass_high = of_min_p.mass_high;
  }
  return {cut, base};
}

// Bounds the distance of a sampler's distribution from the oracle's. The sampler keeps a set S'
// that contains the certain tokens and lies within the possible tokens, with weights w' within
// their errors. Let Z and Z' be the sums of the weights. For a fixed set, the distance is
//
//   TV = 1/2 sum |w'/Z' - w/Z| <= 1/2 (sum |w' - w| / Z + |Z - Z'| / Z) <= sum of errors / Z.
//
// For two different sets with the same weights, let a / Z be the mass that is only in the oracle's
// set, and b / Z the mass that is only in S'. Then TV is at most the larger of the two masses,
// which is at most the ambiguous mass. The token with the largest weight is always in both sets.
// Drawing with 64 random bits moves each token's probability by less than 2^-64, and dividing in
// float64 moves all probabilities together by 2^-52.
double total_variation_bound(const RankedWeights& row, const Cut& cut, double ambiguous_mass) {
  const long double least =
      std::max(row.mass[cut.certain], static_cast<long double>(row.weight_at(0)));
  const long double bound = row.mass_error[cut.possible] / least + ambiguous_mass +
                            static_cast<long double>(cut.possible) * 0x1p-64L + 0x1p-52L;
  return static_cast<double>(std::min(bound, 1.0L));
}

// Bounds the largest probability of a token in a sampler within the weight bound: the largest
// weight over the smallest kept mass. In an ambiguous tie it is unknown which tokens stay, but the
// number of tokens that stay is known.
double largest_bound(const RankedWeights& row, const Cut& cut) {
  const auto open = static_cast<long double>(cut.count_low - cut.certain);
  const long double error = row.mass_error[cut.possible];
  const long double most = row.weight_at(0) + error;
  const long double least = row.mass[cut.certain] + open * row.weight_at(cut.possible - 1) - error;
  return least > most ? static_cast<double>(most / least + 0x1p-52L) : 1;
}

// The mass that a draw adds up if the last token only gets the rest up to p times the base: the
// part of each token, and a bound on a sampler's error of the last part, which is a difference of
// two sums.
struct Walk {
  std::vector<long double> weight;  // weight of each token by rank, up to cut.exact
  long double total = 0, last_error = 0;
  bool truncated = false;
};

Walk walk(const RankedWeights& row, const Filtered& filtered, const Plan& plan,
          const Semantics& semantics) {
  const Cut& cut = filtered.kept;
  Walk result;
  for (std::size_t i = 0; i < cut.exact; ++i) {
    result.weight.emplace_back(row.weight_at(i));
  }
  result.total = row.mass[cut.exact];
  const bool truncates = semantics.boundary_mass == BoundaryMass::truncated && plan.top_p &&
                         *plan.top_p < 1 && !plan.greedy && !plan.greedy_of_weights;
  if (!truncates || cut.exact == 0) return result;
  result.truncated = true;
  const Cut& base = filtered.base;
  const long double p = *plan.top_p;
  const long double budget = p * row.mass[base.exact];
  const long double in_front = row.mass[cut.exact - 1];
  if (budget >= result.total) return result;
  result.weight.back() = std::max(budget - in_front, 0.0L);
  result.total = in_front + result.weight.back();
  result.last_error = row.mass_error[cut.possible] + p * row.mass_error[base.possible] +
                      2 * row.sum_slack() * row.mass.back() + p * (base.mass_high - base.mass_low);
  return result;
}

// Raises every probability to at least the floor, so that every token may be drawn; frequencies
// that were ambiguous stay ambiguous. Raising probabilities to the floor does not increase the
// distance of two distributions. Dividing by sums above 1 that differ by at most that distance at
// most doubles the distance.
void apply_floor(RealDistribution& distribution, double floor) {
  double sum = 0;
  for (double& p : distribution.probability) {
    p = std::max(p, floor);
    sum += p;
  }
  distribution.largest = std::max(distribution.largest, floor);  // then divided by a sum above 1
  for (double& p : distribution.probability) p /= sum;
  for (Membership& membership : distribution.membership) {
    if (membership == Membership::out) membership = Membership::in;
  }
  distribution.support_low = distribution.support_high =
      static_cast<std::int32_t>(distribution.membership.size());
  distribution.total_variation_bound = std::min(1.0, 2 * distribution.total_variation_bound);
}

// Makes the distribution. The filters see the row `filters`; tokens are drawn from the row `row`,
// which has the same ranking.
RealDistribution make_distribution(const RankedWeights& filters, const RankedWeights& row,
                                   std::size_t vocab, const Plan& plan,
                                   const Semantics& semantics) {
  const Filtered filtered = filter(filters, plan, semantics);
  const Cut& cut = filtered.kept;
  const Walk drawn = walk(row, filtered, plan, semantics);
  RealDistribution distribution;
  distribution.membership.assign(vocab, Membership::out);
  distribution.probability.assign(vocab, 0.0);
  for (std::size_t i = 0; i < cut.possible; ++i) {
    const auto id = static_cast<std::size_t>(row.id[i]);
    distribution.membership[id] = i < cut.certain ? Membership::in : Membership::ambiguous;
    if (i < cut.exact)
      distribution.probability[id] = static_cast<double>(drawn.weight[i] / drawn.total);
  }
  // The last token that certainly stays may be the token that crosses p.
  if (drawn.truncated && cut.certain > 1) distribution.partly_drawn = row.id[cut.certain - 1];
  distribution.support_low = static_cast<std::int32_t>(cut.count_low);
  distribution.support_high = static_cast<std::int32_t>(cut.count_high);
  distribution.ambiguous_mass =
      static_cast<double>((row.mass[cut.possible] - row.mass[cut.certain]) / drawn.total);
  // If only one token is kept, it has the whole mass, whatever its weight is.
  if (cut.possible > 1) {
    const double walked = static_cast<double>(2 * drawn.last_error / drawn.total);
    distribution.total_variation_bound =
        std::min(1.0, total_variation_bound(row, cut, distribution.ambiguous_mass) + walked);
    if (drawn.last_error > 0) {
      // The error is relative to the mass that the draw adds up, which is less than the kept mass.
      const auto scale = static_cast<double>(row.mass[cut.exact] / drawn.total);
      distribution.total_variation_bound =
          std::min(1.0, distribution.total_variation_bound * scale);
    }
  }
  // If the last token only has a part of its mass, the draw adds up less than the kept mass.
  if (cut.possible > 1 && !drawn.truncated) distribution.largest = largest_bound(row, cut);
  if (!drawn.weight.empty()) {
    const auto first = static_cast<double>(drawn.weight.front() / drawn.total);
    distribution.largest =
        std::min(distribution.largest, first + distribution.total_variation_bound);
  }
  distribution.log_normalizer = static_cast<double>(std::log(row.mass.back() / row.weight_at(0)));
  if (semantics.masked_probability_floor > 0 && !plan.greedy) {
    apply_floor(distribution, semantics.masked_probability_floor);
  }
  return distribution;
}

std::vector<float> with_banned(std::span<const float> logits,
                               std::span<const std::uint32_t> allowed, float banned_logit) {
  std::vector<float> filled(logits.begin(), logits.end());
  for (std::size_t id = 0; id < filled.size(); ++id) {
    if (((allowed[id / 32] >> (id % 32)) & 1U) == 0) filled[id] = banned_logit;
  }
  return filled;
}

bool has_nan_or_infinity(std::span<const float> values) {
  return std::ranges::any_of(
      values, [](float x) { return std::isnan(x) || x == std::numeric_limits<float>::infinity(); });
}

// True if scaling the logits overflows; a float32 sampler that scales first then has no
// distribution.
bool scaling_overflows(const RankedWeights& row, double temperature) {
  const double largest = std::max(std::abs(static_cast<double>(row.value.front())),
                                  std::abs(static_cast<double>(row.value.back())));
  return largest / temperature > static_cast<double>(FLT_MAX);
}

}  // namespace

RealDistribution real_oracle(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                             const RowParameters& parameters, const Semantics& semantics,
                             const WeightBound& bound) {
  const std::size_t vocab = logits.size();
  if (!allowed.empty() && allowed.size() < (vocab + 31) / 32) {
    throw std::invalid_argument("allowed has less than ceil(vocab / 32) words");
  }
  const Plan plan = make_plan(parameters, vocab, semantics);
  if (plan.outcome != Plan::Outcome::distribution) return no_distribution(vocab, plan);
  if (!allowed.empty() && std::isfinite(semantics.banned_logit)) {
    const std::vector<float> filled = with_banned(logits, allowed, semantics.banned_logit);
    RealDistribution distribution = real_oracle(filled, {}, parameters, semantics, bound);
    // Tokens of negligible probability are never drawn, so a mask may contain them or not.
    for (std::size_t id = 0; id < vocab && distribution.defined; ++id) {
      const bool is_banned = ((allowed[id / 32] >> (id % 32)) & 1U) == 0;
      if (!is_banned || distribution.membership[id] != Membership::in ||
          distribution.probability[id] > 0)
        continue;
      distribution.membership[id] = Membership::ambiguous;
      --distribution.support_low;
    }
    return distribution;
  }
  if (has_nan_or_infinity(logits)) {
    const bool bans_may_hide_it =
        semantics.extremes_are_open && !allowed.empty() &&
        !has_nan_or_infinity(with_banned(logits, allowed, -std::numeric_limits<float>::infinity()));
    return bans_may_hide_it ? no_distribution(vocab, false) : no_distribution(vocab, semantics);
  }

  const double min_p = plan.min_p ? parameters.min_p : 1;
  RankedWeights row = rank_logits(logits, allowed, plan.temperature, min_p, semantics, bound);
  if (row.size() == 0) return no_distribution(vocab, semantics);
  if (plan.uniform) {
    // The factor 0 turns a logit of -inf into NaN.
    if (row.size() < vocab) return no_distribution(vocab, false);
    const std::vector<float> zeros(vocab, 0.0F);
    row = rank_logits(zeros, {}, 1, min_p, semantics, bound);
  } else if (semantics.rounds_scaled_logits && !plan.greedy &&
             scaling_overflows(row, plan.temperature)) {
    return no_distribution(vocab, false);
  }
  if (semantics.temperature_place == TemperaturePlace::after_filters && plan.temperature != 1) {
    const RankedWeights filters = rank_logits(logits, allowed, 1, min_p, semantics, bound);
    return make_distribution(filters, row, vocab, plan, semantics);
  }
  return make_distribution(row, row, vocab, plan, semantics);
}

RealDistribution real_oracle_from_probs(std::span<const float> probs,
                                        const RowParameters& parameters, const Semantics& semantics,
                                        bool truncation) {
  const std::size_t vocab = probs.size();
  RowParameters used = parameters;
  used.temperature = 1;
  const Plan plan = make_plan(used, vocab, semantics);
  if (plan.outcome != Plan::Outcome::distribution) return no_distribution(vocab, plan);
  const bool negative = std::ranges::any_of(probs, [](float p) { return p < 0; });
  if (negative || has_nan_or_infinity(probs)) return no_distribution(vocab, semantics);
  const RankedWeights row =
      rank_probs(probs, plan.min_p ? parameters.min_p : 1, semantics, truncation);
  if (row.size() == 0) return no_distribution(vocab, semantics);
  if (semantics.probability_sum == ProbabilitySum::one) {
    // Probabilities that were rounded to float32 sum to 1 within 2^-24, and a sampler's sum of them
    // has an error of its own.
    double sum = 0;
    for (const float p : probs) sum += static_cast<double>(p);
    if (std::abs(sum - 1) > 0x1p-24 + semantics.relative_sum_error)
      return no_distribution(vocab, false);
  }
  return make_distribution(row, row, vocab, plan, semantics);
}

}  // namespace fairdraw::reference
