// Every definitional choice of a sampler as a named enum value; a profile is a set of them.
//
// The defaults are fairdraw's own. Wherever a choice says `error` the row must be reported as
// failed; `undefined` means that the engine promises nothing, so that nothing is judged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace fairdraw::reference {

/// Tokens that tie with the k-th largest logit. any_k: exactly k stay, and nothing says which.
/// any_small_k: any_k where k <= kSmallK and the vocabulary has kSmallKVocab tokens or more, else
/// keep_all.
enum class TopKTies { keep_all, lowest_id, any_k, any_small_k };
inline constexpr std::size_t kSmallK = 256, kSmallKVocab = 65536;
/// Tokens that tie with the token at which the nucleus is full. lowest_id: a stable sort decides,
/// each of them counts on its own. any: a sort in no particular order of equals.
enum class TopPTies { keep_all, lowest_id, any };
/// Which tokens top_p keeps, by the mass in front of them (exclusive) or up to them (inclusive):
/// mass_above_below_p: exclusive mass < p (the crossing token stays);
/// mass_above_at_most_p: exclusive mass <= p (one more at equality);
/// inclusive_mass_at_most_p: inclusive mass <= p (the crossing token is dropped, first one kept).
enum class TopPBoundary { mass_above_below_p, mass_above_at_most_p, inclusive_mass_at_most_p };
/// What the crossing token is drawn with. truncated: with the part of its mass that lies below p,
/// because the draw inverts the cumulative mass at u p.
enum class BoundaryMass { whole, truncated };
/// What top_p is measured on. joint_without_min_p: the whole row where min_p is 0, else what top_k
/// left.
enum class TopPBase { renormalised, joint, joint_without_min_p };
/// When min_p is applied.
enum class MinPPlace { before_top_k, after_top_p, none };
/// Tokens of exactly min_p times the largest probability: at_least keeps them, above does not.
enum class MinPBoundary { at_least, above };
/// What min_p == 1 means. filter: the ties of the maximum stay. greedy: one of them.
enum class MinPOne { filter, greedy };
/// What top_k == 0 means; negative values follow `top_k_negative`.
enum class TopKZero { off, error, greedy, undefined };
/// minus_one_off: -1 is off and values below it are invalid parameters. first_255: -1 is 255, the
/// same below.
enum class TopKNegative { off, minus_one_off, first_255, error, undefined };
/// What top_k == 1 means. filter: no more than top_k in general, so ties follow `top_k_ties`.
enum class TopKOne { greedy, filter };
/// What top_k above the vocabulary means.
// error_when_random: greedy rows end before the filter that refuses.
enum class TopKAboveVocab { off, error, error_when_random };
/// What top_p == 0 means. greedy: one of the maxima, as `greedy_ties` says. filter: the rule runs
/// with p = 0, ties follow `top_p_ties`. off_beside_top_k: off where top_k is positive, else
/// greedy.
enum class TopPZero { greedy, filter, off, off_beside_top_k, error, undefined };
/// What top_p == 1 means. filter: the rule runs with p = 1, and float32 rounding of the mass above
/// may drop the far tail.
enum class TopPOne { off, filter };
/// What top_p above 1 means. invalid: what `invalid_parameter` says.
enum class TopPAboveOne { invalid, off };
/// What temperature == 0 means. uniform: every allowed token alike. clamped: it is
/// `least_temperature`, so that equal maxima are drawn alike.
enum class TemperatureZero { greedy, clamped, error, uniform };
/// What a negative temperature means. invalid: what `invalid_parameter` says.
enum class TemperatureBelowZero { invalid, greedy };
/// after_filters: the filters see probabilities at temperature 1, and the draw is made at T.
enum class TemperaturePlace { before_filters, after_filters };
/// Which token greedy rows take among equal maxima.
enum class GreedyTies { lowest_id, any };
/// Rows of one value under top_k or top_p. may_stay: the filter may leave them as they are.
enum class EqualRow { filtered, may_stay };
/// What a row without a distribution means: NaN or +inf anywhere in it (at a banned id too), or no
/// allowed token. last_token: the last id of the vocabulary, whatever the row.
enum class NanLogit { row_error, last_token, undefined };
/// What parameters outside the ranges of fairdraw/sample.h mean.
enum class InvalidParameter { row_error, undefined };
/// Rows of probabilities. one: they must sum to 1, others have no distribution.
enum class ProbabilitySum { any, one };

struct Semantics {
  std::string name;
  TopKTies top_k_ties = TopKTies::keep_all;
  TopPTies top_p_ties = TopPTies::keep_all;
  TopPBoundary top_p_boundary = TopPBoundary::mass_above_below_p;
  BoundaryMass boundary_mass = BoundaryMass::whole;
  TopPBase top_p_base = TopPBase::renormalised;
  MinPPlace min_p_place = MinPPlace::before_top_k;
  MinPBoundary min_p_boundary = MinPBoundary::at_least;
  MinPOne min_p_one = MinPOne::filter;
  TopKZero top_k_zero = TopKZero::off;
  TopKNegative top_k_negative = TopKNegative::minus_one_off;
  TopKOne top_k_one = TopKOne::greedy;
  TopKAboveVocab top_k_above_vocab = TopKAboveVocab::off;
  TopPZero top_p_zero = TopPZero::greedy;
  TopPOne top_p_one = TopPOne::off;
  TopPAboveOne top_p_above_one = TopPAboveOne::invalid;
  TemperatureZero temperature_zero = TemperatureZero::greedy;
  TemperatureBelowZero temperature_below_zero = TemperatureBelowZero::invalid;
  TemperaturePlace temperature_place = TemperaturePlace::before_filters;
  GreedyTies greedy_ties = GreedyTies::lowest_id;
  EqualRow equal_row = EqualRow::filtered;
  NanLogit nan_logit = NanLogit::row_error;
  InvalidParameter invalid_parameter = InvalidParameter::row_error;
  ProbabilitySum probability_sum = ProbabilitySum::any;
  /// Temperatures in (0, greedy_below) are greedy too.
  double greedy_below = 0;
  /// Temperatures below it are it; also 0 where temperature_zero is clamped.
  double least_temperature = 0;
  /// A larger top_k is an error; 0: no limit.
  std::int32_t top_k_limit = 0;
  /// What a banned token's logit becomes. Above -inf it can be drawn, at a high temperature.
  float banned_logit = -std::numeric_limits<float>::infinity();
  /// Weight that a masked token keeps: a floor under the filtered probabilities, before the draw
  /// normalises them. 0 for all sound samplers.
  double masked_probability_floor = 0;
  /// Numeric slack of a float32 sampler, derived in float32_bound.h: bound on the relative error of
  /// one weight, and on the error of a sum of weights relative to the sum of the row. The oracle
  /// adds them to its bounds.
  double relative_weight_error = 0;
  double relative_sum_error = 0;
  /// Sums run over the row one token after another: the oracle adds sum_error() of so many
  /// additions as the row has tokens.
  bool sequential_sums = false;
  /// Sums of top_p begin at the small end, and a token stays by the mass from there up to it. Their
  /// errors are then parts of that mass, and not of the row's.
  bool sums_from_the_smallest = false;
  /// The end of the nucleus is searched among probabilities, and found up to this part of the
  /// largest one. 0: it is found exactly.
  double top_p_resolution = 0;
  /// Logits are divided by the temperature and rounded to float32 before anything else (and
  /// filters may compare the float32 probabilities made from them): an extra error that grows with
  /// the size of the logits, and ties between logits that differ.
  bool rounds_scaled_logits = false;
  /// Bad values of which no engine says anything, though fairdraw refuses them, are open:
  /// temperatures above 0 and outside [2^-126, 2^64], parameters that are NaN, and NaN or +inf at
  /// banned ids alone (engines that ban first never see them).
  bool extremes_are_open = false;
  /// Where any of equal tokens may stay at the end of top_k or of the nucleus: any number of them
  /// too, from as many as are needed to all.
  bool tie_counts_are_open = false;

  bool operator==(const Semantics&) const = default;
};

/// Names of the profiles, fairdraw first. profiles.h has their functions, with what each engine
/// does and how sure that is.
std::span<const std::string> profile_names();

/// The profile `name`; nullptr when there is none.
const Semantics* find_profile(std::string_view name);

}  // namespace fairdraw::reference
