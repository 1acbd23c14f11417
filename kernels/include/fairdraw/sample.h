// sample: from raw logits to tokens in one call, with every parameter per request.
//
// Semantics, in this order, per row of logits:
//   1. NaN or +inf anywhere: the row fails. -inf, or a 0 bit in `allowed`: not allowed.
//   2. Greedy rows (temperature 0, top_k 1 or top_p 0): the largest allowed logit, lowest id.
//   3. Logits are divided by the temperature.
//   4. min_p: keep tokens whose probability is at least min_p times the largest. 0 is off.
//   5. top_k: keep tokens at or above the k-th largest surviving logit. 0, -1, k >= vocab: off.
//   6. top_p, on what survived, renormalised: keep a token if and only if the mass of survivors
//      with a strictly larger logit is < top_p. 1 is off.
//   7. Draw in proportion to probability.
//
// With per-request seeds a token is a pure function of (the row's logits, its parameters, seed,
// offset): the same at any batch position, row stride, alignment, thread count and instruction
// set.
//
// Weights are integers, those of tile_index.h: a token counts m 2^(32 - s) in its tile of 256 ids,
// s octaves (factors of 2) below the tile's maximum, and the tile 2^(48 - gap) times that in the
// row; a row's sum Z has 124 bits, and no sum depends on its order. The token of a random word is
// the first, by id, whose sum of surviving weights up to it is above floor(word Z / 2^64). A row
// with top_p below 1 and without an active top_k has 64 attempts before that: each draws a token
// without filters, from the tiles whose largest value min_p keeps, and the first that the filters
// keep is the row's.
//
// Probabilities that are written have float32's range, which exceeds that of draws: a survivor d
// octaves below the row's maximum has the one of softmax within a relative error of 2^-21 + 2^-24
// ln2 (d + log2 V) + V 2^-48, at most 6.6e-6 for a normal float32, before it is rounded to float32.
//
// Distance of the distribution to softmax(logits / T), in total variation: at most 3.5e-7 for any
// row of 2^20 logits. A token with less than 2^-64 of the mass may never be drawn. Equal logits
// weigh the same unless they are more than 32 octaves below the maximum of one of their tiles.
// Adding a number to all logits leaves the weights what they are where c of tile_index.h is a power
// of two, the number times c is an even integer, and no sum is rounded (an odd one rounds ties of
// octaves the other way); else it changes them within that distance.
//
// Errors: A call returns invalid_argument if a field is out of its range or an array has the wrong
// length, and unsupported if this machine has no execution.target; then it writes nothing. An
// output that cannot be sampled has no token and a status instead, and all other outputs go on. Of
// several faults of an output the first counts: index_out_of_range, inactive, a parameter of the
// row, a value of the row, a list of its processing, processing_overflow, no_allowed_token.
//
// Definition: docs/semantics.md for the steps, reference/integer_model.h for the integers, and
// Salmon et al. 2011 for Philox4x32-10.
#pragma once

#include <cstdint>

#include "fairdraw/fresh_seed.h"
#include "fairdraw/log_probabilities.h"
#include "fairdraw/logits_processing.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Rows to sample, and their parameters. Temperature, top_k, top_p, min_p, tie_rule, filter_order,
/// `allowed` and `active` belong to the row of logits; seed and offset belong to the output.
/// Without `indices` output i is row i.
struct SampleRequest {
  RowsView logits;                       ///< [rows, vocab], any dtype
  PerRequest<float> temperature = 1.0F;  ///< 0 (greedy) or in [2^-126, 2^64]; length 1 or rows
  PerRequest<std::int32_t> top_k = 0;    ///< scalar or [rows]; >= -1; 0, -1 and >= vocab are off
  PerRequest<float> top_p = 1.0F;        ///< in [0, 1]; 0 is greedy, 1 is off
  PerRequest<float> min_p = 0.0F;        ///< in [0, 1]; 0 is off
  PerRequest<std::uint64_t> seed = fresh_seed();  ///< scalar or [outputs]; without one of its
                                                  ///< own a request has a fresh one, which is here
  PerRequest<std::uint64_t> offset = std::uint64_t{0};  ///< scalar or [outputs]
  /// for the k-th largest logit; scalar or [rows]
  PerRequest<TieRule> tie_rule = TieRule::keep_all;
  /// mass that top_p is measured on; scalar or [rows]
  PerRequest<FilterOrder> filter_order = FilterOrder::top_k_first;
  BitRows<const std::uint32_t> allowed;  ///< optional, one row per row of logits; bit 1: allowed
  LogitsProcessing processing;           ///< penalties, bias and bans, before the temperature
  View<const std::uint8_t> active;       ///< [rows]; optional; 0: padding
  View<const std::int32_t> indices;      ///< optional: output i samples row indices[i]
  std::int32_t num_samples = 1;          ///< tokens an output, >= 1, drawn with replacement
  Purpose purpose = Purpose::draw;       ///< kind of the random words
};

/// Destination of results. `tokens` is needed, the rest is optional.
///
/// Random bits: Philox4x32-10, key = seed, counter = {offset low, offset high, purpose + 256
/// attempt, index}, attempt 0 where a row has no attempts, and 64 where none was accepted. With an
/// array of seeds index is the sample's number within its output; with one scalar seed it is the
/// number of the token in the call (output * num_samples + sample).
struct SampleResult {
  View<std::int32_t> tokens;        ///< [outputs, num_samples]; -1 where the status is not ok
  View<RowStatus> statuses;         ///< [outputs]
  View<std::int32_t> support_size;  ///< [outputs]; tokens that survive the filters, 0 on failure
  View<float> logprob;              ///< [outputs, num_samples]; of the token at this temperature
                                    ///< (1 where it is 0), before min_p, top_k and top_p;
  View<float> logprob_filtered;     ///< [outputs, num_samples]; among the survivors, <= 0
  BitRows<std::uint32_t> mask;      ///< one row per row of logits: the survivors
  FloatRows probs;                  ///< one row per row of logits: renormalised, 0 outside the mask
  LogprobsResult logprobs;          ///< in an engine's form: modes, ranks, top n, whole rows
};  // Failed outputs: log-probabilities are -inf. Failed rows: mask and probs are 0; inactive ones
    // are left untouched.

/// Samples. On an error (a field out of its range, an array of the wrong length) nothing is
/// written. Bad values inside a row, or in its parameters, fail that output alone.
Error sample(const SampleRequest& request, const SampleResult& result,
             const Execution& execution = {});

}  // namespace fairdraw
