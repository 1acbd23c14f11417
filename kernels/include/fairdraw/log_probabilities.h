// Log-probabilities of tokens, in the forms that inference engines report.
//
// `sample` reports the log-probabilities of the tokens that it draws (SampleResult::logprobs).
// log_probabilities() reports those of tokens that the caller names, for example the tokens of a
// prompt or of another sampler.
//
// A row has a value for each token of the vocabulary. The mode, named as in vLLM's logprobs_mode,
// says which value.
//   raw_logits           x, the caller's logit as float32.
//   raw_logprobs         ln of softmax(x) at temperature 1, without processing and bans.
//   processed_logits     x' / T: one float32 division of the processed logit (logits_processing.h)
//                        by the temperature; x' if T = 0.
//   processed_logprobs   ln of the distribution that `sample` draws from: softmax(x' / T) over the
//                        mask.
// A value of -inf marks a token that has no probability. In raw modes its logit is -inf; in
// processed modes the token is banned, or the filters drop it (a greedy row keeps one token). All
// other values are finite: a value beyond float32's range becomes the largest finite float32 of its
// sign. No value is ever NaN.
//
// Values are ordered by value, descending, and equal values by token id, ascending. The order is
// that of the logits, which are exact: two tokens with different logits keep their order even if
// their log-probabilities round to the same float32.
//
// A log-probability is (x - max) / T - ln(Z / W) in float64, rounded once to float32. Z is the
// integer sum of the row's weights (sample.h), and W the weight of the row's largest logit. Z and W
// are the same on every backend, so the results of two backends differ only by their logarithms, at
// most one unit in the last place. No log-probability is above 0, and the log-probability of a
// row's only token is 0. The distance to the real value is at most the following bound.
//   -log1p(-E) - log1p(-e_0) + (2^-24 + 2^-50) |value| + 2^-47,   E = sum_i p_i min(1, e_i)
// Here p is the distribution itself, and e_i = 2^-22 + 2^-24 ln2 |y_i| + 2^(|y_i| - 48) is the
// bound on the error of a weight at a distance of y_i octaves from the maximum. E is below 2^-22 +
// 4.14e-8 E_p|y| + V 2^-48.
//
// Errors: log_probabilities() returns the codes of fairdraw/sample.h, and writes nothing then.
// Outputs have the statuses of `sample`, and index_out_of_range if one of their token ids is
// outside the vocabulary.
//
// Definition: vLLM (logprobs_mode) for the modes and the ranks; this comment for the values and
// their bound.
#pragma once

#include <cstdint>

#include "fairdraw/types.h"

namespace fairdraw {

struct SampleRequest;

/// Largest number of entries of LogprobsResult::top_n. The array `all` has whole rows.
inline constexpr std::int32_t kLargestTopN = 128;

/// Kind of value that is reported for a token.
enum class LogprobsMode : std::uint32_t {
  raw_logits = 0,          ///< the caller's logit
  raw_logprobs = 1,        ///< natural logarithm of softmax of the caller's logits, at temperature
                           ///< 1
  processed_logits = 2,    ///< the processed logit divided by the temperature
  processed_logprobs = 3,  ///< natural logarithm of the probability with which `sample` draws the
                           ///< token
};

/// Meaning of a token's rank. position: the token's place in the order, from 1 on; no two tokens
/// have the same rank. at_least: the number of values that are >= the token's own (as in vLLM);
/// tokens with equal values have the last of their places.
enum class RankRule : std::uint32_t {
  position = 0,  ///< the token's place in the order, from 1 on
  at_least = 1,  ///< the number of values that are >= the token's own
};

/// Returns the name of a mode, as in the enum.
const char* to_string(LogprobsMode mode) noexcept;
/// Returns the name of a rule, as in the enum.
const char* to_string(RankRule rule) noexcept;

/// The choice of values that are reported, and the arrays in which they are written. All arrays of
/// the result are optional. An output that is inactive or whose status is not ok gets values -inf,
/// ids -1 and ranks 0.
struct LogprobsResult {
  LogprobsMode mode = LogprobsMode::raw_logprobs;  ///< kind of value that is reported
  RankRule rank_rule = RankRule::position;         ///< meaning of `ranks`
  std::int32_t top_n = 0;      ///< number of largest values that are reported, 0 to kLargestTopN
  View<float> values;          ///< [outputs, num_samples]; values of the tokens
  View<std::int32_t> ranks;    ///< [outputs, num_samples]; ranks of the tokens; 0 if the value is
                               ///< -inf
  View<std::int32_t> top_ids;  ///< [outputs, top_n]; ids of the largest values, in order; needed if
                               ///< top_n > 0
  View<float> top_values;      ///< [outputs, top_n]; largest values, in order; if fewer than top_n
                               ///< values are finite, the rest is -inf with id -1
  FloatRows all;               ///< [rows, vocab]; the value of every token. Failed rows get -inf,
                               ///< and inactive rows are left untouched

  /// Returns true if the caller asks for at least one array.
  constexpr bool given() const {
    return values.given() || ranks.given() || top_ids.given() || top_values.given() || all.given();
  }
};

/// Returns true if the values come from the row before processing, temperature and filters.
constexpr bool is_raw(LogprobsMode mode) {
  return mode == LogprobsMode::raw_logits || mode == LogprobsMode::raw_logprobs;
}

/// Returns true if the values are log-probabilities, not logits.
constexpr bool is_logprobs(LogprobsMode mode) {
  return mode == LogprobsMode::raw_logprobs || mode == LogprobsMode::processed_logprobs;
}

/// Reports the values of given tokens, without drawing. Each output has `request.num_samples` ids,
/// with `indices` as for `sample`; seeds have no effect. `token_ids`: [outputs, num_samples]. An
/// output fails with index_out_of_range if one of its ids is not in [0, vocab). Raw modes read
/// neither processing, nor `allowed`, nor filters. `statuses`: [outputs], optional.
Error log_probabilities(const SampleRequest& request, View<const std::int32_t> token_ids,
                        const LogprobsResult& result, View<RowStatus> statuses = {},
                        const Execution& execution = {});

}  // namespace fairdraw
