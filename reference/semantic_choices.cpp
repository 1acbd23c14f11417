#include "reference/semantic_choices.h"

#include <stdexcept>
#include <utility>

namespace fairdraw::reference {
namespace {

template <class T>
struct Named {
  const char* name;
  T value;
};

template <class T>
Choice choice(const char* name, const char* meaning, T Semantics::*member,
              const std::vector<Named<T>>& values) {
  Choice result{name, meaning, {}};
  for (const Named<T>& named : values) {
    const T value = named.value;
    result.values.push_back({named.name,
                             [member, value](Semantics& semantics) { semantics.*member = value; },
                             [member, value](const Semantics& semantics) {
                               return !(semantics.*member < value) && !(value < semantics.*member);
                             }});
  }
  return result;
}

#define FAIRDRAW_NAMED(type, value) \
  Named<type> { #value, type::value }

std::vector<Choice> filter_choices() {
  return {
      choice<TopKTies>("top_k_ties", "ties with the k-th largest", &Semantics::top_k_ties,
                       {FAIRDRAW_NAMED(TopKTies, keep_all), FAIRDRAW_NAMED(TopKTies, lowest_id),
                        FAIRDRAW_NAMED(TopKTies, any_k), FAIRDRAW_NAMED(TopKTies, any_small_k)}),
      choice<TopKOne>("top_k_one", "top_k 1", &Semantics::top_k_one,
                      {FAIRDRAW_NAMED(TopKOne, greedy), FAIRDRAW_NAMED(TopKOne, filter)}),
      choice<TopKZero>("top_k_zero", "top_k 0", &Semantics::top_k_zero,
                       {FAIRDRAW_NAMED(TopKZero, off), FAIRDRAW_NAMED(TopKZero, error),
                        FAIRDRAW_NAMED(TopKZero, greedy), FAIRDRAW_NAMED(TopKZero, undefined)}),
      choice<TopKNegative>(
          "top_k_negative", "top_k -1 and below", &Semantics::top_k_negative,
          {FAIRDRAW_NAMED(TopKNegative, off), FAIRDRAW_NAMED(TopKNegative, minus_one_off),
           FAIRDRAW_NAMED(TopKNegative, first_255), FAIRDRAW_NAMED(TopKNegative, error),
           FAIRDRAW_NAMED(TopKNegative, undefined)}),
      choice<TopKAboveVocab>(
          "top_k_above_vocab", "top_k above the vocabulary", &Semantics::top_k_above_vocab,
          {FAIRDRAW_NAMED(TopKAboveVocab, off), FAIRDRAW_NAMED(TopKAboveVocab, error),
           FAIRDRAW_NAMED(TopKAboveVocab, error_when_random)}),
      choice<std::int32_t>("top_k_limit", "largest top_k", &Semantics::top_k_limit,
                           {{"none", 0}, {"128", 128}, {"1024", 1024}}),
      choice<TopPBoundary>("top_p_boundary", "mass exactly at top_p", &Semantics::top_p_boundary,
                           {FAIRDRAW_NAMED(TopPBoundary, mass_above_below_p),
                            FAIRDRAW_NAMED(TopPBoundary, mass_above_at_most_p),
                            FAIRDRAW_NAMED(TopPBoundary, inclusive_mass_at_most_p)}),
      choice<TopPTies>("top_p_ties", "ties at the end of the nucleus", &Semantics::top_p_ties,
                       {FAIRDRAW_NAMED(TopPTies, keep_all), FAIRDRAW_NAMED(TopPTies, lowest_id),
                        FAIRDRAW_NAMED(TopPTies, any)}),
      choice<BoundaryMass>(
          "boundary_mass", "mass of the token that crosses top_p", &Semantics::boundary_mass,
          {FAIRDRAW_NAMED(BoundaryMass, whole), FAIRDRAW_NAMED(BoundaryMass, truncated)}),
      choice<TopPBase>("top_p_base", "what top_p is measured on after top_k",
                       &Semantics::top_p_base,
                       {FAIRDRAW_NAMED(TopPBase, renormalised), FAIRDRAW_NAMED(TopPBase, joint),
                        FAIRDRAW_NAMED(TopPBase, joint_without_min_p)}),
      choice<TopPZero>("top_p_zero", "top_p 0", &Semantics::top_p_zero,
                       {FAIRDRAW_NAMED(TopPZero, greedy), FAIRDRAW_NAMED(TopPZero, filter),
                        FAIRDRAW_NAMED(TopPZero, off), FAIRDRAW_NAMED(TopPZero, off_beside_top_k),
                        FAIRDRAW_NAMED(TopPZero, error), FAIRDRAW_NAMED(TopPZero, undefined)}),
      choice<TopPOne>("top_p_one", "top_p 1", &Semantics::top_p_one,
                      {FAIRDRAW_NAMED(TopPOne, off), FAIRDRAW_NAMED(TopPOne, filter)}),
      choice<TopPAboveOne>(
          "top_p_above_one", "top_p above 1", &Semantics::top_p_above_one,
          {FAIRDRAW_NAMED(TopPAboveOne, invalid), FAIRDRAW_NAMED(TopPAboveOne, off)}),
      choice<MinPPlace>("min_p_place", "place of min_p", &Semantics::min_p_place,
                        {FAIRDRAW_NAMED(MinPPlace, before_top_k),
                         FAIRDRAW_NAMED(MinPPlace, after_top_p), FAIRDRAW_NAMED(MinPPlace, none)}),
      choice<MinPBoundary>(
          "min_p_boundary", "probability exactly at min_p", &Semantics::min_p_boundary,
          {FAIRDRAW_NAMED(MinPBoundary, at_least), FAIRDRAW_NAMED(MinPBoundary, above)}),
      choice<MinPOne>("min_p_one", "min_p 1", &Semantics::min_p_one,
                      {FAIRDRAW_NAMED(MinPOne, filter), FAIRDRAW_NAMED(MinPOne, greedy)}),
  };
}

std::vector<Choice> other_choices() {
  return {
      choice<TemperaturePlace>("temperature_place", "place of the temperature",
                               &Semantics::temperature_place,
                               {FAIRDRAW_NAMED(TemperaturePlace, before_filters),
                                FAIRDRAW_NAMED(TemperaturePlace, after_filters)}),
      choice<TemperatureZero>(
          "temperature_zero", "temperature 0", &Semantics::temperature_zero,
          {FAIRDRAW_NAMED(TemperatureZero, greedy), FAIRDRAW_NAMED(TemperatureZero, clamped),
           FAIRDRAW_NAMED(TemperatureZero, error), FAIRDRAW_NAMED(TemperatureZero, uniform)}),
      choice<TemperatureBelowZero>("temperature_below_zero", "negative temperatures",
                                   &Semantics::temperature_below_zero,
                                   {FAIRDRAW_NAMED(TemperatureBelowZero, invalid),
                                    FAIRDRAW_NAMED(TemperatureBelowZero, greedy)}),
      choice<double>("greedy_below", "temperatures that are greedy", &Semantics::greedy_below,
                     {{"0", 0}, {"1e-6", 1e-6}, {"1e-5", 1e-5}}),
      // vLLM raises the temperature of a request to at least 0.01.
      choice<double>("least_temperature", "temperatures that are raised",
                     &Semantics::least_temperature, {{"0", 0}, {"1e-6", 1e-6}, {"0.01", 0.01}}),
      choice<GreedyTies>("greedy_ties", "equal maxima in greedy rows", &Semantics::greedy_ties,
                         {FAIRDRAW_NAMED(GreedyTies, lowest_id), FAIRDRAW_NAMED(GreedyTies, any)}),
      choice<EqualRow>("equal_row", "rows of one value", &Semantics::equal_row,
                       {FAIRDRAW_NAMED(EqualRow, filtered), FAIRDRAW_NAMED(EqualRow, may_stay)}),
      choice<NanLogit>("nan_logit", "NaN, +inf, and rows of nothing", &Semantics::nan_logit,
                       {FAIRDRAW_NAMED(NanLogit, row_error), FAIRDRAW_NAMED(NanLogit, last_token),
                        FAIRDRAW_NAMED(NanLogit, undefined)}),
      choice<InvalidParameter>("invalid_parameter", "parameters out of range",
                               &Semantics::invalid_parameter,
                               {FAIRDRAW_NAMED(InvalidParameter, row_error),
                                FAIRDRAW_NAMED(InvalidParameter, undefined)}),
      choice<ProbabilitySum>(
          "probability_sum", "probabilities that do not sum to 1", &Semantics::probability_sum,
          {FAIRDRAW_NAMED(ProbabilitySum, any), FAIRDRAW_NAMED(ProbabilitySum, one)}),
      choice<float>("banned_logit", "logit of a banned token", &Semantics::banned_logit,
                    {{"-inf", -std::numeric_limits<float>::infinity()}, {"-10000", -10000}}),
      choice<double>("masked_probability_floor", "probability of a filtered token",
                     &Semantics::masked_probability_floor, {{"0", 0}, {"1e-9", 1e-9}}),
  };
}

#undef FAIRDRAW_NAMED

}  // namespace

const ChoiceValue& Choice::of(const Semantics& semantics) const {
  for (const ChoiceValue& value : values) {
    if (value.is_set(semantics)) return value;
  }
  throw std::logic_error("profile " + semantics.name + " has a value of " + name +
                         " without a name");
}

std::span<const Choice> semantic_choices() {
  static const std::vector<Choice> all = [] {
    std::vector<Choice> list = filter_choices();
    for (Choice& more : other_choices()) list.push_back(std::move(more));
    return list;
  }();
  return all;
}

}  // namespace fairdraw::reference
