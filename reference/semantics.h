// Every definitional choice of a sampler as a named enum value; a profile is a set of them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace fairdraw::reference {

/// Tokens that tie with the k-th largest logit.
enum class TopKTies { keep_all, lowest_id, any_k };
/// Tokens that tie with the token at which the nucleus is full.
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
enum class TopKZero { off, error, greedy };
enum class TopKNegative { off, error };
/// What top_p == 0 means.
enum class TopPZero { greedy, off, error };
/// What temperature == 0 means.
enum class TemperatureZero { greedy, error, uniform };
/// What NaN in a row means.
enum class NanLogit { row_error, undefined };
/// Weight that a masked token keeps (absolute, added as a floor to the filtered probabilities).
/// 0 for all sound samplers.
struct Semantics {
  std::string name;
  TopKTies top_k_ties = TopKTies::keep_all;
  TopPTies top_p_ties = TopPTies::keep_all;
  TopPBoundary top_p_boundary = TopPBoundary::mass_above_below_p;
  TopPBase top_p_base = TopPBase::renormalised;
  MinPPlace min_p_place = MinPPlace::before_top_k;
  TopKZero top_k_zero = TopKZero::off;
  TopKNegative top_k_negative = TopKNegative::off;
  TopPZero top_p_zero = TopPZero::greedy;
  TemperatureZero temperature_zero = TemperatureZero::greedy;
  NanLogit nan_logit = NanLogit::row_error;
  double masked_probability_floor = 0;  ///< rosellm: 1e-9, by clamp_min after the mask
  double relative_weight_error = 0;     ///< numeric slack of a float32 sampler, for its masks
};

/// Names of the profiles: fairdraw, vllm_torch, flashinfer, hf, rosellm.
std::span<const std::string> profile_names();

/// The profile `name`; nullptr when there is none.
const Semantics* find_profile(std::string_view name);

}  // namespace fairdraw::reference
