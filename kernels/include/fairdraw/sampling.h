// This header has the operations of flashinfer.sampling, with the same names and meanings.
//
// Each operation runs on the same engine as `sample` (fairdraw/sample.h), with its semantics,
// random bits, statuses and errors. Probabilities are finite and >= 0. Probabilities need not sum
// to 1, because every mass is taken relative to the sum of their weights. The weights are the
// significands and exponents of the floats (tile_index.h). The weights are exact for a probability
// at most 31 octaves below the maximum of its tile, in a tile whose maximum is at most 48 octaves
// below the row's. A token of probability 0 is not allowed. Renormalised probabilities have a
// relative error of at most V 2^-48 before they are rounded to float32, however small they are.
//
// Errors: Calls return the codes of fairdraw/sample.h, and write nothing then. Outputs and rows
// have the statuses of `sample`. In rows of probabilities a negative value is negative_probability,
// and no_allowed_token means that no probability is above 0.
//
// Definition: flashinfer.sampling for names and meanings, docs/semantics.md for the steps.
#pragma once

#include <cstdint>

#include "fairdraw/fresh_seed.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Parameters of draws: seeds and offsets (one value, or one per output), `indices` (output i
/// samples row indices[i]; optional) and the number of tokens per output.
struct DrawOptions {
  /// scalar or [outputs]; by default a fresh seed, as in SampleRequest
  PerRequest<std::uint64_t> seed = fresh_seed();
  PerRequest<std::uint64_t> offset = std::uint64_t{0};  ///< scalar or [outputs]
  View<const std::int32_t> indices;  ///< [outputs], optional: output i samples row indices[i]
  std::int32_t num_samples = 1;      ///< tokens per output, >= 1
};

/// The results of a draw: tokens, [outputs, num_samples], and statuses (optional), [outputs].
struct DrawResult {
  View<std::int32_t> tokens;  ///< [outputs, num_samples]; -1 if the status is not ok
  View<RowStatus> statuses;   ///< [outputs], optional
};

/// Computes probs[i] = softmax(logits[i] / temperature) in float32. At temperature 0 the largest
/// logit has probability 1, and all other tokens have 0. Small probabilities keep their value, down
/// to float32's smallest (SampleResult::probs). Shapes: `logits` and `probs` are [rows, vocab],
/// `temperature` a scalar or [rows], and `statuses` (optional) [rows].
Error softmax(const RowsView& logits, const PerRequest<float>& temperature, const FloatRows& probs,
              View<RowStatus> statuses = {}, const Execution& execution = {});

/// Draws from softmax(logits). The array `logits` is [rows, vocab], of any dtype.
Error sampling_from_logits(const RowsView& logits, const DrawOptions& options,
                           const DrawResult& result, const Execution& execution = {});

/// Draws in proportion to the probabilities. The array `probs` is [rows, vocab], of any dtype.
Error sampling_from_probs(const RowsView& probs, const DrawOptions& options,
                          const DrawResult& result, const Execution& execution = {});

/// Draws among the k largest probabilities; tokens that tie with the k-th largest are kept. The
/// array `probs` is [rows, vocab], of any dtype. `top_k` is a scalar or [rows], and >= -1 (the
/// filter is off at 0, -1 and k >= vocab).
Error top_k_sampling_from_probs(const RowsView& probs, const PerRequest<std::int32_t>& top_k,
                                const DrawOptions& options, const DrawResult& result,
                                const Execution& execution = {});

/// Draws from the nucleus: the largest probabilities, up to a mass of top_p. The array `probs` is
/// [rows, vocab], of any dtype. `top_p` is a scalar or [rows], and in [0, 1] (0 is greedy, and 1
/// turns the filter off).
Error top_p_sampling_from_probs(const RowsView& probs, const PerRequest<float>& top_p,
                                const DrawOptions& options, const DrawResult& result,
                                const Execution& execution = {});

/// Draws among the tokens with p >= min_p * (largest p); the comparison is exact.
/// The array `probs` is [rows, vocab], of any dtype. `min_p` is a scalar or [rows], and in [0, 1].
Error min_p_sampling_from_probs(const RowsView& probs, const PerRequest<float>& min_p,
                                const DrawOptions& options, const DrawResult& result,
                                const Execution& execution = {});

/// Draws from softmax(logits) among the tokens that top_k and top_p keep, with the filters applied
/// in this order or jointly. The array `logits` is [rows, vocab], of any dtype. `top_k`, `top_p`
/// and `filter_order` are scalars or [rows].
Error top_k_top_p_sampling_from_logits(const RowsView& logits,
                                       const PerRequest<std::int32_t>& top_k,
                                       const PerRequest<float>& top_p,
                                       const PerRequest<FilterOrder>& filter_order,
                                       const DrawOptions& options, const DrawResult& result,
                                       const Execution& execution = {});

/// Draws in proportion to the probabilities that top_k and top_p keep, with the filters applied in
/// this order or jointly. The array `probs` is [rows, vocab], of any dtype. `top_k`, `top_p` and
/// `filter_order` are scalars or [rows].
Error top_k_top_p_sampling_from_probs(const RowsView& probs, const PerRequest<std::int32_t>& top_k,
                                      const PerRequest<float>& top_p,
                                      const PerRequest<FilterOrder>& filter_order,
                                      const DrawOptions& options, const DrawResult& result,
                                      const Execution& execution = {});

/// Copies the logits in the same dtype, and replaces everything below the k-th largest by -inf.
/// Rows of the copy are `masked_row_stride` elements apart. Tokens that tie with the k-th largest
/// are kept, also for k = 1. A failed row is -inf at all ids. `masked` may be the input itself if
/// the strides are equal.
/// Shapes: `logits` and `masked` are [rows, vocab], `top_k` a scalar or [rows], and `statuses`
/// (optional) [rows].
Error top_k_mask_logits(const RowsView& logits, const PerRequest<std::int32_t>& top_k, void* masked,
                        std::int64_t masked_row_stride, View<RowStatus> statuses = {},
                        const Execution& execution = {});

/// Writes the k largest probabilities of each row in float32, renormalised to a sum of 1, and 0 for
/// all others. Tokens that tie with the k-th largest are kept, also for k = 1; top_k is off at 0,
/// -1 and k >= vocab.
/// Shapes: `probs` and `renormalised` are [rows, vocab], `top_k` a scalar or [rows], and `statuses`
/// (optional) [rows].
Error top_k_renorm_probs(const RowsView& probs, const PerRequest<std::int32_t>& top_k,
                         const FloatRows& renormalised, View<RowStatus> statuses = {},
                         const Execution& execution = {});

/// Writes the probabilities of each row's nucleus of mass top_p in float32, renormalised to a sum
/// of 1, and 0 for all others. At top_p 0 the token with the largest probability (the lowest id
/// among ties) has 1.
/// Shapes: `probs` and `renormalised` are [rows, vocab], `top_p` a scalar or [rows], and `statuses`
/// (optional) [rows].
Error top_p_renorm_probs(const RowsView& probs, const PerRequest<float>& top_p,
                         const FloatRows& renormalised, View<RowStatus> statuses = {},
                         const Execution& execution = {});

}  // namespace fairdraw
