// Log-probabilities of tokens, in the forms in which engines report them.
//
// `sample` reports them of the tokens that it draws (SampleResult::logprobs); log_probabilities()
// of tokens that the caller names: those of a prompt, or of another sampler.
//
// A row has a value for each token of the vocabulary, by mode (the names are those of vLLM's
// logprobs_mode):
//   raw_logits           x, the caller's logit as float32.
//   raw_logprobs         ln of softmax(x): at temperature 1, nothing processed, nothing banned.
//   processed_logits     x' / T: one float32 division of the processed logit (logits_processing.h)
//                        by the temperature; x' where T = 0.
//   processed_logprobs   ln of the distribution that `sample` draws from: softmax(x' / T) over the
//   mask.
// -inf means that there is no such token: of raw modes a logit of -inf, of processed modes a token
// that is banned or that the filters drop (greedy rows keep one token). All other values are
// finite: what float32 cannot hold becomes its largest finite number. NaN never comes out.
//
// Order: value descending, token id ascending among equals. It is the order of the logits, which
// are exact: two tokens whose log-probabilities round to the same float32 keep theirs.
//
// Log-probabilities are (x - max) / T - ln(Z / W) in float64, rounded once to float32; Z is the
// integer sum of the row's weights (sample.h) and W the weight of its largest logit, the same on
// every backend, so that two backends differ by no more than their logarithms: one unit in the last
// place. No log-probability is above 0, and that of a token which is alone is 0. Distance to the
// real value: at most
//   -log1p(-E) - log1p(-e_0) + (2^-24 + 2^-50) |value| + 2^-47,   E = sum_i p_i min(1, e_i),
// p the distribution itself, e_i = 2^-22 + 2^-24 ln2 |y_i| + 2^(|y_i| - 48) the bound on a weight
// at a distance of y_i octaves from the maximum. E is below 2^-22 + 4.14e-8 E_p|y| + V 2^-48.
//
// Errors: log_probabilities() returns the codes of fairdraw/sample.h, and writes nothing then.
// Outputs have the statuses of `sample`, and index_out_of_range if one of their token ids is
// outside the vocabulary.
//
// Definition: vLLM (logprobs_mode) for the modes and the ranks, reference/log_probabilities.h for
// the values and their bound.
#pragma once

#include <cstdint>

#include "fairdraw/types.h"

namespace fairdraw {

struct SampleRequest;

/// Most entries of LogprobsResult::top_n. The whole row is `all`.
inline constexpr std::int32_t kLargestTopN = 128;

/// Which value of a token is reported.
enum class LogprobsMode : std::uint32_t {
  raw_logits = 0,          ///< the caller's logit
  raw_logprobs = 1,        ///< ln of softmax of the caller's logits, at temperature 1
  processed_logits = 2,    ///< the processed logit over the temperature
  processed_logprobs = 3,  ///< ln of the distribution that `sample` draws from
};

/// Meaning of a rank. position: the place in the order, from 1 on; no two tokens share one.
/// at_least: how many values are >= the token's own (vLLM); tokens that tie share the last place.
enum class RankRule : std::uint32_t {
  position = 0,  ///< the place in the order, from 1 on
  at_least = 1,  ///< how many values are >= the token's own
};

/// Name of a mode, as in the enum.
const char* to_string(LogprobsMode mode) noexcept;
/// Name of a rule, as in the enum.
const char* to_string(RankRule rule) noexcept;

/// Choice and destination of reports. All arrays are optional. An output whose status is not ok, or
/// that is inactive, gets values -inf, ids -1 and ranks 0.
struct LogprobsResult {
  LogprobsMode mode = LogprobsMode::raw_logprobs;  ///< which value a token has
  RankRule rank_rule = RankRule::position;         ///< meaning of `ranks`
  std::int32_t top_n = 0;      ///< 0 to kLargestTopN: how many of the largest values
  View<float> values;          ///< [outputs, num_samples]: of the token
  View<std::int32_t> ranks;    ///< [outputs, num_samples]: of the token; 0: its value is -inf
  View<std::int32_t> top_ids;  ///< [outputs, top_n], in order; needed where top_n > 0
  View<float> top_values;      ///< [outputs, top_n]; where fewer values are finite than top_n,
                               ///< the rest is -inf, of id -1
  FloatRows all;               ///< one row per row of logits: every token's value. Failed rows:
                               ///< -inf; inactive ones are left untouched

  /// True where some array is asked for.
  constexpr bool given() const {
    return values.given() || ranks.given() || top_ids.given() || top_values.given() || all.given();
  }
};

/// True where values come from the row before processing, temperature and filters.
constexpr bool is_raw(LogprobsMode mode) {
  return mode == LogprobsMode::raw_logits || mode == LogprobsMode::raw_logprobs;
}

/// True where values are log-probabilities and not logits.
constexpr bool is_logprobs(LogprobsMode mode) {
  return mode == LogprobsMode::raw_logprobs || mode == LogprobsMode::processed_logprobs;
}

/// Reports of given tokens: no drawing. `request.num_samples` ids an output, with `indices` as for
/// `sample`; seeds mean nothing. `token_ids`: [outputs, num_samples], each in [0, vocab), or the
/// output fails (index_out_of_range). Raw modes read neither processing, nor `allowed`, nor
/// filters. `statuses`: [outputs], optional.
Error log_probabilities(const SampleRequest& request, View<const std::int32_t> token_ids,
                        const LogprobsResult& result, View<RowStatus> statuses = {},
                        const Execution& execution = {});

}  // namespace fairdraw
