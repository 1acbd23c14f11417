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

// What a profile makes of the parameters.
struct Plan {
  enum class Outcome { law, must_fail, undefined };
  Outcome outcome = Outcome::law;
  bool greedy = false;             // argmax of the logits
  bool greedy_of_weights = false;  // the nucleus of mass 0
  bool uniform = false;
  std::optional<std::size_t> top_k;
  std::optional<float> top_p;
  bool min_p = false;
};

bool in_unit_interval(float value) { return value >= 0 && value <= 1; }

bool within_ranges(const RowParameters& parameters, const Semantics& semantics) {
  const float temperature = parameters.temperature;
  return (temperature == 0 || (temperature >= 0x1p-126F && temperature <= 0x1p64F)) &&
         (parameters.top_k >= -1 || semantics.top_k_negative != TopKNegative::minus_one_off) &&
         in_unit_interval(parameters.top_p) && in_unit_interval(parameters.min_p);
}

void plan_temperature(Plan& plan, float temperature, const Semantics& semantics) {
  if (temperature == 0) {
    switch (semantics.temperature_zero) {
      case TemperatureZero::greedy:
        plan.greedy = true;
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
  if (top_k < 0) {
    if (semantics.top_k_negative == TopKNegative::error) plan.outcome = Plan::Outcome::must_fail;
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
  } else if (static_cast<std::size_t>(top_k) > vocab) {
    if (semantics.top_k_above_vocab == TopKAboveVocab::error) {
      plan.outcome = Plan::Outcome::must_fail;
    }
  } else if (top_k == 1 && semantics.top_k_one == TopKOne::greedy) {
    plan.greedy = true;
  } else {
    plan.top_k = static_cast<std::size_t>(top_k);
  }
}

void plan_top_p(Plan& plan, float top_p, const Semantics& semantics) {
  if (top_p == 0) {
    switch (semantics.top_p_zero) {
      case TopPZero::off:
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
  } else if (top_p < 1 || semantics.top_p_one == TopPOne::filter) {
    plan.top_p = top_p;
  }
}

Plan make_plan(const RowParameters& parameters, std::size_t vocab, const Semantics& semantics) {
  Plan plan;
  if (!within_ranges(parameters, semantics)) {
    plan.outcome = semantics.invalid_parameter == InvalidParameter::row_error
                       ? Plan::Outcome::must_fail
                       : Plan::Outcome::undefined;
    return plan;
  }
  // Later ones override: an error is an error beside something undefined.
  plan_top_p(plan, parameters.top_p, semantics);
  plan_top_k(plan, parameters.top_k, vocab, semantics);
  plan_temperature(plan, parameters.temperature, semantics);
  plan.min_p = parameters.min_p > 0 && semantics.min_p_place != MinPPlace::none;
  return plan;
}

RealLaw no_law(std::size_t vocab, bool must_fail) {
  RealLaw law;
  law.defined = false;
  law.must_fail = must_fail;
  law.membership.assign(vocab, Membership::out);
  law.probability.assign(vocab, 0.0);
  return law;
}

RealLaw no_law(std::size_t vocab, const Plan& plan) {
  return no_law(vocab, plan.outcome == Plan::Outcome::must_fail);
}

RealLaw no_law(std::size_t vocab, const Semantics& semantics) {
  return no_law(vocab, semantics.nan_logit == NanLogit::row_error);
}

Cut filter(const RankedWeights& row, const Plan& plan, const Semantics& semantics) {
  if (plan.greedy || plan.greedy_of_weights) {
    return greedy_cut(row, semantics.greedy_ties, !plan.greedy);
  }
  const Cut whole = whole_row(row);
  const Cut of_min_p = plan.min_p ? min_p_cut(row) : whole;
  const Cut of_top_k = plan.top_k ? top_k_cut(row, *plan.top_k, semantics.top_k_ties) : whole;

  // top_k counts ranks, so that it cuts at the same place with or without min_p before it.
  const bool min_p_first = semantics.min_p_place == MinPPlace::before_top_k;
  Cut base = min_p_first ? of_min_p : whole;
  if (semantics.top_p_base == TopPBase::renormalised) base = intersection(base, of_top_k);
  const Cut of_top_p = plan.top_p ? top_p_cut(row, base, *plan.top_p, semantics) : base;

  Cut cut = intersection(intersection(of_top_p, of_top_k), of_min_p);
  // Two filters that choose apart from each other among the same tied tokens may meet in less.
  if (semantics.top_p_base == TopPBase::joint && of_top_k.open() && of_top_p.open()) {
    cut.count_low = cut.certain;
  }
  return cut;
}

// Distance of the law of a sampler from ours. It keeps a set S' between the certain and the
// possible, with weights w' within their errors. For a fixed set, with sums Z and Z',
//   TV = 1/2 sum |w'/Z' - w/Z| <= 1/2 (sum |w' - w| / Z + |Z - Z'| / Z) <= sum of errors / Z.
// Between two sets on the same weights, with masses a (only in ours) and b (only in S') over Z:
// TV <= max(a, b), at most the ambiguous mass. The largest weight is always in.
// Drawing with 64 random bits moves each token's probability by less than 2^-64, and dividing in
// float64 all of them together by 2^-52.
double total_variation_bound(const RankedWeights& row, const Cut& cut, double ambiguous_mass) {
  const long double least =
      std::max(row.mass[cut.certain], static_cast<long double>(row.weight_at(0)));
  const long double bound = row.mass_error[cut.possible] / least + ambiguous_mass +
                            static_cast<long double>(cut.possible) * 0x1p-64L + 0x1p-52L;
  return static_cast<double>(std::min(bound, 1.0L));
}

void apply_floor(RealLaw& law, double floor) {
  double sum = 0;
  for (double& p : law.probability) {
    p = std::max(p, floor);
    sum += p;
  }
  for (double& p : law.probability) p /= sum;
  law.membership.assign(law.membership.size(), Membership::in);
  law.support_low = law.support_high = static_cast<std::int32_t>(law.membership.size());
  law.ambiguous_mass = 0;
}

RealLaw make_law(const RankedWeights& row, std::size_t vocab, const Plan& plan,
                 const Semantics& semantics) {
  const Cut cut = filter(row, plan, semantics);
  RealLaw law;
  law.membership.assign(vocab, Membership::out);
  law.probability.assign(vocab, 0.0);
  const long double kept = row.mass[cut.exact];
  for (std::size_t i = 0; i < cut.possible; ++i) {
    const auto id = static_cast<std::size_t>(row.id[i]);
    law.membership[id] = i < cut.certain ? Membership::in : Membership::ambiguous;
    if (i < cut.exact) law.probability[id] = static_cast<double>(row.weight_at(i) / kept);
  }
  law.support_low = static_cast<std::int32_t>(cut.count_low);
  law.support_high = static_cast<std::int32_t>(cut.count_high);
  law.ambiguous_mass = static_cast<double>((row.mass[cut.possible] - row.mass[cut.certain]) / kept);
  // One token has all of the mass, whatever its weight.
  law.total_variation_bound =
      cut.possible == 1 ? 0 : total_variation_bound(row, cut, law.ambiguous_mass);
  law.log_normalizer = static_cast<double>(std::log(row.mass.back() / row.weight_at(0)));
  if (semantics.masked_probability_floor > 0 && !plan.greedy) {
    apply_floor(law, semantics.masked_probability_floor);
  }
  return law;
}

bool has_nan_or_infinity(std::span<const float> values) {
  return std::ranges::any_of(
      values, [](float x) { return std::isnan(x) || x == std::numeric_limits<float>::infinity(); });
}

// A float32 sampler that scales first has no law where that overflows.
bool scaling_overflows(const RankedWeights& row, double temperature) {
  const double largest = std::max(std::abs(static_cast<double>(row.value.front())),
                                  std::abs(static_cast<double>(row.value.back())));
  return largest / temperature > static_cast<double>(FLT_MAX);
}

}  // namespace

RealLaw real_oracle(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                    const RowParameters& parameters, const Semantics& semantics,
                    const WeightBound& bound) {
  const std::size_t vocab = logits.size();
  if (!allowed.empty() && allowed.size() < (vocab + 31) / 32) {
    throw std::invalid_argument("allowed has less than ceil(vocab / 32) words");
  }
  const Plan plan = make_plan(parameters, vocab, semantics);
  if (plan.outcome != Plan::Outcome::law) return no_law(vocab, plan);
  if (has_nan_or_infinity(logits)) return no_law(vocab, semantics);

  const double temperature = parameters.temperature == 0 ? 1 : parameters.temperature;
  const double min_p = plan.min_p ? parameters.min_p : 1;
  RankedWeights row = rank_logits(logits, allowed, temperature, min_p, semantics, bound);
  if (row.size() == 0) return no_law(vocab, semantics);
  if (plan.uniform) {
    // The factor 0 makes NaN of -inf.
    if (row.size() < vocab) return no_law(vocab, false);
    const std::vector<float> zeros(vocab, 0.0F);
    row = rank_logits(zeros, {}, 1, min_p, semantics, bound);
  } else if (semantics.rounds_scaled_logits && !plan.greedy &&
             scaling_overflows(row, temperature)) {
    return no_law(vocab, false);
  }
  return make_law(row, vocab, plan, semantics);
}

RealLaw real_oracle_from_probs(std::span<const float> probs, const RowParameters& parameters,
                               const Semantics& semantics, bool truncation) {
  const std::size_t vocab = probs.size();
  RowParameters used = parameters;
  used.temperature = 1;
  const Plan plan = make_plan(used, vocab, semantics);
  if (plan.outcome != Plan::Outcome::law) return no_law(vocab, plan);
  const bool negative = std::ranges::any_of(probs, [](float p) { return p < 0; });
  if (negative || has_nan_or_infinity(probs)) return no_law(vocab, semantics);
  const RankedWeights row =
      rank_probs(probs, plan.min_p ? parameters.min_p : 1, semantics, truncation);
  if (row.size() == 0) return no_law(vocab, semantics);
  return make_law(row, vocab, plan, semantics);
}

}  // namespace fairdraw::reference
