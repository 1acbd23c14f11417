// The operations of flashinfer.sampling, by their names and with their meanings.
//
// Each is a view of the same engine as `sample` (fairdraw/sample.h), with its semantics, random
// bits, statuses and errors. Probabilities are finite and >= 0; they need not sum to 1: every mass
// is taken relative to the sum of their weights. Those are the floats' own significands and
// exponents (tile_index.h): exact for what lies at most 31 octaves below the maximum of its tile,
// in a tile whose maximum is at most 48 below the row's. A probability of 0 is not allowed.
// Renormalised probabilities have a relative error of at most V 2^-48 before they are rounded to
// float32, however small they are.
//
// Errors: Calls return the codes of fairdraw/sample.h, and write nothing then. Outputs and rows
// have its statuses. In rows of probabilities a negative value is negative_probability, and
// no_allowed_token means that no probability is above 0.
//
// Definition: flashinfer.sampling for names and meanings, docs/semantics.md for the steps.
#pragma once

#include <cstdint>

#include "fairdraw/fresh_seed.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Parameters of draws: seeds and offsets (scalar, or one an output), `indices` (output i samples
/// row indices[i]; optional) and the number of tokens an output.
struct DrawOptions {
  /// scalar or [outputs]; a fresh one is here, as in SampleRequest
  PerRequest<std::uint64_t> seed = fresh_seed();
  PerRequest<std::uint64_t> offset = std::uint64_t{0};  ///< scalar or [outputs]
  View<const std::int32_t> indices;  ///< [outputs], optional: output i samples row indices[i]
  std::int32_t num_samples = 1;      ///< tokens per output, >= 1
};

/// Results of a draw: tokens [outputs, num_samples], statuses [outputs] (optional).
struct DrawResult {
  View<std::int32_t> tokens;  ///< [outputs, num_samples]; -1 where the status is not ok
  View<RowStatus> statuses;   ///< [outputs], optional
};

/// probs[i] = softmax(logits[i] / temperature), float32; temperature 0 is one-hot at the argmax.
/// Small probabilities keep their value, down to float32's smallest: see SampleResult::probs.
/// `logits` and `probs` [rows, vocab]; `temperature` scalar or [rows]; `statuses` [rows], optional.
Error softmax(const RowsView& logits, const PerRequest<float>& temperature, const FloatRows& probs,
              View<RowStatus> statuses = {}, const Execution& execution = {});

/// Draws from softmax(logits). `logits` [rows, vocab], any dtype.
Error sampling_from_logits(const RowsView& logits, const DrawOptions& options,
                           const DrawResult& result, const Execution& execution = {});

/// Draws in proportion to the probabilities. `probs` [rows, vocab], any dtype.
Error sampling_from_probs(const RowsView& probs, const DrawOptions& options,
                          const DrawResult& result, const Execution& execution = {});

/// Draws among the k largest probabilities; ties of the k-th stay. `probs` [rows, vocab], any
/// dtype; `top_k` scalar or [rows], >= -1 (0, -1 and k >= vocab are off).
Error top_k_sampling_from_probs(const RowsView& probs, const PerRequest<std::int32_t>& top_k,
                                const DrawOptions& options, const DrawResult& result,
                                const Execution& execution = {});

/// Draws from the nucleus of mass top_p. `probs` [rows, vocab], any dtype; `top_p` scalar or
/// [rows], in [0, 1] (0 is greedy, 1 is off).
Error top_p_sampling_from_probs(const RowsView& probs, const PerRequest<float>& top_p,
                                const DrawOptions& options, const DrawResult& result,
                                const Execution& execution = {});

/// Keeps p >= min_p * (largest p), the comparison exact.
/// `probs` [rows, vocab], any dtype; `min_p` scalar or [rows], in [0, 1].
Error min_p_sampling_from_probs(const RowsView& probs, const PerRequest<float>& min_p,
                                const DrawOptions& options, const DrawResult& result,
                                const Execution& execution = {});

/// Draws from softmax(logits) among what top_k and top_p keep, in this order or joint. `logits`
/// [rows, vocab], any dtype; `top_k`, `top_p` and `filter_order` scalar or [rows].
Error top_k_top_p_sampling_from_logits(const RowsView& logits,
                                       const PerRequest<std::int32_t>& top_k,
                                       const PerRequest<float>& top_p,
                                       const PerRequest<FilterOrder>& filter_order,
                                       const DrawOptions& options, const DrawResult& result,
                                       const Execution& execution = {});

/// Draws in proportion to the probabilities that top_k and top_p keep, in this order or joint.
/// `probs` [rows, vocab], any dtype; `top_k`, `top_p` and `filter_order` scalar or [rows].
Error top_k_top_p_sampling_from_probs(const RowsView& probs, const PerRequest<std::int32_t>& top_k,
                                      const PerRequest<float>& top_p,
                                      const PerRequest<FilterOrder>& filter_order,
                                      const DrawOptions& options, const DrawResult& result,
                                      const Execution& execution = {});

/// Copies the logits (same dtype, rows `masked_row_stride` elements apart) with everything below
/// the k-th largest replaced by -inf. Ties of the k-th stay, for k = 1 too. A failed row is all
/// -inf. `masked` may be the input itself when the strides are equal.
/// `logits` and `masked` [rows, vocab]; `top_k` scalar or [rows]; `statuses` [rows], optional.
Error top_k_mask_logits(const RowsView& logits, const PerRequest<std::int32_t>& top_k, void* masked,
                        std::int64_t masked_row_stride, View<RowStatus> statuses = {},
                        const Execution& execution = {});

/// renormalised[i] = probs[i] over the k largest (ties stay), float32, summing to 1.
/// top_k 1 keeps ties here too; 0, -1 and k >= vocab are off.
/// `probs` and `renormalised` [rows, vocab]; `top_k` scalar or [rows]; `statuses` [rows], optional.
Error top_k_renorm_probs(const RowsView& probs, const PerRequest<std::int32_t>& top_k,
                         const FloatRows& renormalised, View<RowStatus> statuses = {},
                         const Execution& execution = {});

/// renormalised[i] = probs[i] over its nucleus of mass top_p, float32, summing to 1. top_p 0 is
/// one-hot at the argmax (lowest id).
/// `probs` and `renormalised` [rows, vocab]; `top_p` scalar or [rows]; `statuses` [rows], optional.
Error top_p_renorm_probs(const RowsView& probs, const PerRequest<float>& top_p,
                         const FloatRows& renormalised, View<RowStatus> statuses = {},
                         const Execution& execution = {});

}  // namespace fairdraw
