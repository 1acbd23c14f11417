// Every definitional choice of a sampler as a named enum value; a profile is a set of them.
//
// The defaults are fairdraw's own. Wherever a choice says `error` the row must be reported as
// failed; `undefined` means that the engine promises nothing, so that nothing is judged.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace fairdraw::reference {

/// Tokens that tie with the k-th largest logit.
enum class TopKTies { keep_all, lowest_id, any_k };
/// Tokens that tie with the token at which the nucleus is full. any: a sort in no particular order
/// of equals decides, each of them counts on its own.
enum class TopPTies { keep_all, any };
/// Which tokens top_p keeps, by the mass in front of them (exclusive) or up to them (inclusive):
/// mass_above_below_p: exclusive mass < p (the crossing token stays);
/// mass_above_at_most_p: exclusive mass <= p (one more at equality);
/// inclusive_mass_at_most_p: inclusive mass <= p (the crossing token is dropped, first one kept).
enum class TopPBoundary { mass_above_below_p, mass_above_at_most_p, inclusive_mass_at_most_p };
/// What top_p is measured on.
enum class TopPBase { renormalised, joint };
/// When min_p is applied.
enum class MinPPlace { before_top_k, after_top_p, none };
/// What top_k == 0 means; negative values follow `top_k_negative`.
enum class TopKZero { off, error, greedy, undefined };
/// minus_one_off: -1 is off and values below it are invalid parameters.
enum class TopKNegative { off, minus_one_off, error };
/// What top_k == 1 means. filter: no more than top_k in general, so ties follow `top_k_ties`.
enum class TopKOne { greedy, filter };
/// What top_k above the vocabulary means.
enum class TopKAboveVocab { off, error };
/// What top_p == 0 means.
enum class TopPZero { greedy, off, error, undefined };
/// What top_p == 1 means. filter: the rule runs with p = 1, and float32 rounding of the mass above
/// may drop the far tail.
enum class TopPOne { off, filter };
/// What temperature == 0 means. uniform: every allowed token alike.
enum class TemperatureZero { greedy, error, uniform };
/// Which token greedy rows take among equal maxima.
enum class GreedyTies { lowest_id, any };
/// What a row without a law means: NaN or +inf anywhere in it (at a banned id too), or no allowed
/// token.
enum class NanLogit { row_error, undefined };
/// What parameters outside the ranges of fairdraw/sample.h mean.
enum class InvalidParameter { row_error, undefined };

struct Semantics {
  std::string name;
  TopKTies top_k_ties = TopKTies::keep_all;
  TopPTies top_p_ties = TopPTies::keep_all;
  TopPBoundary top_p_boundary = TopPBoundary::mass_above_below_p;
  TopPBase top_p_base = TopPBase::renormalised;
  MinPPlace min_p_place = MinPPlace::before_top_k;
  TopKZero top_k_zero = TopKZero::off;
  TopKNegative top_k_negative = TopKNegative::minus_one_off;
  TopKOne top_k_one = TopKOne::greedy;
  TopKAboveVocab top_k_above_vocab = TopKAboveVocab::off;
  TopPZero top_p_zero = TopPZero::greedy;
  TopPOne top_p_one = TopPOne::off;
  TemperatureZero temperature_zero = TemperatureZero::greedy;
  GreedyTies greedy_ties = GreedyTies::lowest_id;
  NanLogit nan_logit = NanLogit::row_error;
  InvalidParameter invalid_parameter = InvalidParameter::row_error;
  /// Temperatures in (0, greedy_below) are greedy too.
  double greedy_below = 0;
  /// Weight that a masked token keeps: a floor under the filtered probabilities, before the draw
  /// normalises them. 0 for all sound samplers.
  double masked_probability_floor = 0;
  /// Numeric slack of a float32 sampler, derived in float32_bound.h: bound on the relative error of
  /// one weight, and on the error of a sum of weights relative to the sum of the row. The oracle
  /// adds them to its bounds.
  double relative_weight_error = 0;
  double relative_sum_error = 0;
  /// Logits are divided by the temperature and rounded to float32 before anything else (and
  /// filters may compare the float32 probabilities made from them): an extra error that grows with
  /// the size of the logits, and ties between logits that differ.
  bool rounds_scaled_logits = false;
};

/// Names of the profiles: fairdraw, vllm_torch, flashinfer, hf, rosellm.
std::span<const std::string> profile_names();

/// The profile `name`; nullptr when there is none.
const Semantics* find_profile(std::string_view name);

}  // namespace fairdraw::reference
