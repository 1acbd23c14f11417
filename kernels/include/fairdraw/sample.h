// `sample` draws tokens from raw logits in one call, with every parameter per request.
//
// The steps on a row of logits have this order.
//   1. A NaN or +inf anywhere makes the row fail. A logit of -inf, or a 0 bit in `allowed`, means
//      that the token is not allowed.
//   2. Greedy rows (temperature 0, top_k 1 or top_p 0) give the largest allowed logit, and the
//      lowest id among equal logits.
//   3. Logits are divided by the temperature.
//   4. min_p: keep tokens whose probability is at least min_p times the largest. 0 is off.
//   5. top_k: keep tokens at or above the k-th largest surviving logit. 0, -1, k >= vocab: off.
//   6. top_p, on the renormalised survivors: keep a token if and only if the mass of survivors
//      with a strictly larger logit is < top_p. 1 is off.
//   7. Draw in proportion to probability.
//
// With per-request seeds a token is a pure function of (the row's logits, its parameters, seed,
// offset). The token does not depend on the position in the batch, row stride, alignment, thread
// count or instruction set.
//
// Weights are the integers of tile_index.h. A token that lies s octaves (factors of 2) below the
// largest value of its tile of 256 ids counts m 2^(32 - s) in that tile, and the tile counts 2^(48
// - gap) times its sum in the row. A row's sum Z has at most 124 bits, and no sum depends on the
// order of its terms. The token of a random word is the first, by id, at which the cumulative sum
// of surviving weights exceeds floor(word Z / 2^64). A row with top_p below 1 and without an active
// top_k has 64 attempts before that. Each attempt draws a token without filters, from the tiles
// whose largest value min_p keeps. The first drawn token that the filters keep is the row's token.
//
// Probabilities that are written have the range of float32, which exceeds the range of draws. The
// probability of a survivor d octaves below the row's maximum is that of softmax within a relative
// error of 2^-21 + 2^-24 ln2 (d + log2 V) + V 2^-48, at most 6.6e-6 for a normal float32, before it
// is rounded to float32.
//
// The total variation distance of the distribution to softmax(logits / T) is at most 3.5e-7 for any
// row of 2^20 logits. A token with less than 2^-64 of the mass may never be drawn. Equal logits
// have equal weights unless they are more than 32 octaves below the maximum of one of their tiles.
// Adding a number to all logits leaves the weights unchanged if c of tile_index.h is a power of
// two, the number times c is an even integer, and no sum is rounded (an odd integer rounds ties of
// octaves the other way). Any other number changes the weights within that distance.
//
// Errors: A call returns invalid_argument if a field is out of its range or an array has the wrong
// length, and unsupported if this machine has no execution.target; then it writes nothing. An
// output that cannot be sampled has no token and a status instead, and all other outputs go on. Of
// several faults of an output the first counts: index_out_of_range, inactive, a parameter of the
// row, a value of the row, a list of its processing, processing_overflow, no_allowed_token.
//
// Definition: docs/semantics.md for the steps, this comment for the integers, and Salmon et al.
// 2011 for Philox4x32-10.
#pragma once

#include <cstdint>

#include "fairdraw/fresh_seed.h"
#include "fairdraw/log_probabilities.h"
#include "fairdraw/logits_processing.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// The rows to sample, and their parameters. Temperature, top_k, top_p, min_p, tie_rule,
/// filter_order, `allowed` and `active` belong to the row of logits; seed and offset belong to the
/// output. Without `indices`, output i samples row i.
struct SampleRequest {
  RowsView logits;                       ///< [rows, vocab]; logits of any dtype
  PerRequest<float> temperature = 1.0F;  ///< scalar or [rows]; 0 (greedy) or in [2^-126, 2^64]
  PerRequest<std::int32_t> top_k = 0;    ///< scalar or [rows]; >= -1; the filter is off at 0, -1
                                         ///< and >= vocab
  PerRequest<float> top_p = 1.0F;        ///< scalar or [rows]; in [0, 1]; 0 is greedy, and 1 turns
                                         ///< the filter off
  PerRequest<float> min_p = 0.0F;        ///< in [0, 1]; 0 is off
  PerRequest<std::uint64_t> seed = fresh_seed();  ///< scalar or [outputs]; by default a fresh seed,
                                                  ///< which this member holds
  PerRequest<std::uint64_t> offset = std::uint64_t{0};  ///< scalar or [outputs]
  /// rule for ties with the k-th largest logit; scalar or [rows]
  PerRequest<TieRule> tie_rule = TieRule::keep_all;
  /// the mass on which top_p is measured; scalar or [rows]
  PerRequest<FilterOrder> filter_order = FilterOrder::top_k_first;
  BitRows<const std::uint32_t> allowed;  ///< optional, one row per row of logits; bit 1: the token
                                         ///< is allowed
  LogitsProcessing processing;           ///< penalties, biases, bans and filters, which apply
                                         ///< before the temperature
  View<const std::uint8_t> active;       ///< [rows]; optional; 0: padding
  View<const std::int32_t> indices;      ///< [outputs], optional: output i samples row indices[i]
  std::int32_t num_samples = 1;          ///< number of tokens per output, >= 1, drawn with
                                         ///< replacement
  Purpose purpose = Purpose::draw;       ///< purpose for which the random words are drawn
};

/// Destination of results. `tokens` is needed, and the other members are optional.
///
/// Random bits come from Philox4x32-10 with key = seed and counter = {offset low, offset high,
/// purpose + 256 attempt, index}. attempt is 0 if a row has no attempts, and 64 if no attempt was
/// accepted. With an array of seeds, index is the number of the sample within its output. With one
/// scalar seed, index is the number of the token in the call (output * num_samples + sample).
struct SampleResult {
  View<std::int32_t> tokens;        ///< [outputs, num_samples]; -1 if the status is not ok
  View<RowStatus> statuses;         ///< [outputs]
  View<std::int32_t> support_size;  ///< [outputs]; number of tokens that survive the filters, 0 if
                                    ///< the output fails
  View<float> logprob;              ///< [outputs, num_samples]; log-probabilities of the tokens at
                                    ///< this temperature (at temperature 1 if it is 0), before
                                    ///< min_p, top_k and top_p;
  View<float> logprob_filtered;     ///< [outputs, num_samples]; log-probabilities of the tokens
                                    ///< among the survivors, <= 0
  BitRows<std::uint32_t> mask;      ///< one row per row of logits; bit 1: the token survives the
                                    ///< filters
  FloatRows probs;                  ///< one row per row of logits; renormalised probabilities, 0
                                    ///< outside the mask
  LogprobsResult logprobs;          ///< log-probabilities in the form of an inference engine:
                                    ///< modes, ranks, top n, whole rows
};  // If an output fails, its log-probabilities are -inf. If a row fails, its mask and probs are 0.
    // Inactive rows are left untouched.

/// Samples. If the call returns an error (a field out of its range, an array of the wrong length),
/// nothing is written. Bad values in a row or in its parameters fail that output alone.
Error sample(const SampleRequest& request, const SampleResult& result,
             const Execution& execution = {});

}  // namespace fairdraw
