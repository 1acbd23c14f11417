// Names every definition that samplers choose differently, as an enum value. A profile is a set of
// values of these enums.
//
// The default values are fairdraw's own definitions. If a choice is `error`, the row must be
// reported as failed. If a choice is `undefined`, the engine promises nothing, so nothing is
// judged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace fairdraw::reference {

/// Rule that decides which tokens top_k keeps of those that tie with the k-th largest logit. any_k:
/// exactly k tokens stay, and any of the tied tokens may be among them. any_small_k: any_k if k <=
/// kSmallK and the vocabulary has at least kSmallKVocab tokens, otherwise keep_all.
enum class TopKTies { keep_all, lowest_id, any_k, any_small_k };
inline constexpr std::size_t kSmallK = 256, kSmallKVocab = 65536;
/// Rule that decides which tokens top_p keeps of those that tie with the last token of the nucleus.
/// lowest_id: a stable sort decides, and each token counts by itself. any: a sort that leaves the
/// order of equal tokens open decides.
enum class TopPTies { keep_all, lowest_id, any };
/// The rule of top_p, by the mass in front of a token (exclusive) or up to and including it
/// (inclusive). mass_above_below_p: exclusive mass < p (the crossing token stays);
/// mass_above_at_most_p: exclusive mass <= p (one token more at equality);
/// inclusive_mass_at_most_p: inclusive mass <= p (the crossing token is dropped, but the first
/// token is always kept).
enum class TopPBoundary { mass_above_below_p, mass_above_at_most_p, inclusive_mass_at_most_p };
/// The mass with which the token that crosses p is drawn. truncated: only with the part of its mass
/// below p, because the draw inverts the cumulative mass at u p.
enum class BoundaryMass { whole, truncated };
/// The mass that top_p is a fraction of. joint_without_min_p: the mass of the whole row if min_p is
/// 0, otherwise of the survivors of top_k.
enum class TopPBase { renormalised, joint, joint_without_min_p };
/// The place of min_p in the order of the filters.
enum class MinPPlace { before_top_k, after_top_p, none };
/// Tokens of exactly min_p times the largest probability: at_least keeps such tokens, above drops
/// them.
enum class MinPBoundary { at_least, above };
/// Meaning of min_p == 1. filter: all tokens tied for the maximum stay. greedy: one of these tokens
/// stays.
enum class MinPOne { filter, greedy };
/// Meaning of top_k == 0; `top_k_negative` gives the meaning of negative values.
enum class TopKZero { off, error, greedy, undefined };
/// Meaning of negative top_k. minus_one_off: -1 turns top_k off, and smaller values are invalid
/// parameters. first_255: -1 means 255, and smaller values are invalid.
enum class TopKNegative { off, minus_one_off, first_255, error, undefined };
/// Meaning of top_k == 1. filter: a top_k like any other, so ties are treated as `top_k_ties` says.
enum class TopKOne { greedy, filter };
/// Meaning of top_k above the vocabulary size. error_when_random: an error except in greedy rows,
// which end before the filter that refuses such a top_k.
enum class TopKAboveVocab { off, error, error_when_random };
/// Meaning of top_p == 0. greedy: one of the maxima, chosen by `greedy_ties`. filter: the rule runs
/// with p = 0, and ties are treated as `top_p_ties` says. off_beside_top_k: off if top_k is
/// positive, otherwise greedy.
enum class TopPZero { greedy, filter, off, off_beside_top_k, error, undefined };
/// Meaning of top_p == 1. filter: the rule runs with p = 1, and float32 rounding of the mass above
/// may drop the far tail.
enum class TopPOne { off, filter };
/// Meaning of top_p above 1. invalid: an invalid parameter, treated as `invalid_parameter` says.
enum class TopPAboveOne { invalid, off };
/// Meaning of temperature == 0. uniform: all allowed tokens are equally likely. clamped: the
/// temperature becomes `least_temperature`, so that equal maxima are equally likely.
enum class TemperatureZero { greedy, clamped, error, uniform };
/// Meaning of a negative temperature. invalid: an invalid parameter, treated as `invalid_parameter`
/// says.
enum class TemperatureBelowZero { invalid, greedy };
/// The time at which the temperature is applied. after_filters: the filters see probabilities at
/// temperature 1, and the draw is made at temperature T.
enum class TemperaturePlace { before_filters, after_filters };
/// The token that a greedy row takes if several tokens have the largest logit.
enum class GreedyTies { lowest_id, any };
/// Rows whose logits all have the same value, under top_k or top_p. may_stay: the filter may leave
/// such rows unchanged.
enum class EqualRow { filtered, may_stay };
/// The result for a row without a distribution: NaN or +inf anywhere in the row (at a banned id
/// too), or no allowed token. last_token: the last id of the vocabulary, whatever the row is.
enum class NanLogit { row_error, last_token, undefined };
/// The result for parameters outside the ranges of fairdraw/sample.h.
enum class InvalidParameter { row_error, undefined };
/// The sums that a row of probabilities may have. one: a row must sum to 1; other rows have no
/// distribution.
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
  /// Temperatures in (0, greedy_below) are greedy, like temperature 0.
  double greedy_below = 0;
  /// Lower temperatures are raised to this value; temperature 0 is raised too if temperature_zero
  /// is clamped.
  double least_temperature = 0;
  /// The largest top_k that is accepted; a larger one is an error; 0: no limit.
  std::int32_t top_k_limit = 0;
  /// The logit that banned tokens get. If this logit is above -inf, banned tokens can be drawn at a
  /// high temperature.
  float banned_logit = -std::numeric_limits<float>::infinity();
  /// The weight that a masked token keeps: a minimum for the filtered probabilities, before the
  /// draw normalises them. Correct samplers have 0.
  double masked_probability_floor = 0;
  /// The numeric error of a float32 sampler, derived in float32_bound.h: a bound on the relative
  /// error of one weight, and on the error of a sum of weights relative to the sum of the row. The
  /// oracle adds these errors to its bounds.
  double relative_weight_error = 0;
  double relative_sum_error = 0;
  /// True if the sampler's sums add one token of the row after another. If sums are sequential, the
  /// oracle adds sum_error() for as many additions as the row has tokens.
  bool sequential_sums = false;
  /// True if the sums of top_p begin at the smallest token, so that the mass from the smallest
  /// token up to a token decides whether it stays. The errors of sums from the smallest token on
  /// are fractions of those sums, not of the row's sum.
  bool sums_from_the_smallest = false;
  /// The end of the nucleus is searched among probabilities, and found up to this fraction of the
  /// largest probability. 0: the end is found exactly.
  double top_p_resolution = 0;
  /// True if logits are first divided by the temperature and rounded to float32 (and filters may
  /// compare the float32 probabilities made from these). Rounded scaling adds an error that grows
  /// with the size of the logits, and may make different logits equal.
  bool rounds_scaled_logits = false;
  /// True if results may be anything for bad values that fairdraw refuses but no engine defines:
  /// temperatures above 0 and outside [2^-126, 2^64], NaN parameters, and NaN or +inf only at
  /// banned ids (engines that ban first never see such values).
  bool extremes_are_open = false;
  /// True if the number of tied tokens that stay may vary too, where any of the tied tokens at the
  /// end of top_k or of the nucleus may stay: from as many as are needed to all.
  bool tie_counts_are_open = false;

  bool operator==(const Semantics&) const = default;
};

/// The names of the profiles, fairdraw first. The functions in profiles.h describe each engine's
/// behaviour and how certain it is.
std::span<const std::string> profile_names();

/// Returns the profile `name`, or nullptr if there is no such profile.
const Semantics* find_profile(std::string_view name);

}  // namespace fairdraw::reference
