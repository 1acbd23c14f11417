// Beam search: one step of a batch of requests, and their best sequences at the end.
//
// A request has up to `width` live beams, unfinished sequences with a cumulative log-probability
// each, and a pool of up to `width` finished ones. A step, per request:
//   1. Every (beam, token) is a candidate with score(beam) + logprob(token), unless that is -inf.
//      The best (1 + e) * width of them count, e the number of end ids, at least 1: so many hold
//      `width` that do not end (2 * width in TensorRT-LLM, max(2, 1 + e) * width in Hugging Face).
//      Order: larger score first, then lower beam, then lower token id.
//   2. In that order: a candidate that ends (its token is an end id) joins the pool if it is among
//      the first `width` candidates, and is dropped otherwise; one that does not is a live beam of
//      the next step, until there are `width`.
//   3. The pool holds the `width` best by normalised score: cumulative / length^length_penalty,
//      length being the generated tokens with the end id. Of equal scores the earlier one is kept,
//      and stays in front.
//   4. The request is done when its pool is full and, by early_stopping:
//        1: at once.
//        0: no live beam seems to get better: the pool's worst score is at least the best
//           candidate's cumulative score / (this length)^length_penalty.
//        2: none can: the same with max_tokens for the length where length_penalty > 0.
//      Or when max_tokens are generated, or no live beam is left: then the live beams (ended by
//      length) count with the pool in the end.
//
// TensorRT-LLM's meaning of early_stopping (cpp/tensorrt_llm/kernels/beamSearchKernels: 1, 0, and
// any other number); Hugging Face's True, False and "never" (BeamSearchScorer). Differences: in
// TensorRT-LLM a pooled score that equals the worst of a full pool displaces the worst, but not in
// Hugging Face and not here. With 2, TensorRT-LLM drops the candidates after the first candidate
// that ends too badly for a full pool; this leaves stale beams there, but not here.
//
// Arithmetic, so that every backend gives the same bits. From logits: logprob is the float32 of
// ((double)x - (double)max) - log(Z / W), Z the sum of the row's integer weights at temperature 1
// and W the largest logit's (log_probabilities.h bounds the error). From log-probabilities: the
// float32 that is given. A score is one float32 addition. A normalised score is a float32 division
// by (float)pow((double)length, (double)length_penalty); a penalty of 0 divides by 1.
//
// Penalties, minimum lengths and bans belong to the logits: process them first, and give the result
// as logits or log-probabilities. Diverse beam search is not offered: diversity_rate must be 0.
//
// Errors: A call returns invalid_argument if a field is out of its range or an array has the wrong
// length, and unsupported if diversity_rate is not 0 or this machine has no execution.target; then
// it writes nothing. A fault of one request fails that request alone, with a status of
// BeamStepResult or BeamSequences.
//
// Definition: TensorRT-LLM (beamSearchKernels) and Hugging Face (BeamSearchScorer), with the
// differences above.
#pragma once

#include <cstdint>

#include "fairdraw/token_lists.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Largest beam width, TensorRT-LLM's (kMaxBeamWidth).
inline constexpr std::int32_t kMaxBeamWidth = 1024;

/// Contents of rows.
enum class BeamInput : std::uint32_t {
  logits = 0,    ///< raw logits
  logprobs = 1,  ///< log-probabilities, natural
};

/// Parameters of requests.
struct BeamParameters {
  /// scalar or [requests]; 1 to max_width, the same in all steps
  PerRequest<std::int32_t> width = 1;
  /// scalar or [requests]; finite; TensorRT-LLM's default is 0, HF's 1
  PerRequest<float> length_penalty = 0.0F;
  PerRequest<std::int32_t> early_stopping = 1;  ///< scalar or [requests]; 0, 1 or 2
  PerRequest<float> diversity_rate = 0.0F;  ///< scalar or [requests]; 0; any other value is refused
  /// scalar or [requests]; generated tokens, the end id included; >= 1
  PerRequest<std::int32_t> max_tokens = 1;
  TokenLists end_ids;  ///< optional
};

/// State of a request.
enum class BeamState : std::int32_t {
  live = 0,         ///< it goes on
  pool_done = 1,    ///< its pool is what it returns
  length_done = 2,  ///< its live beams count too
};

/// Finished sequences of each request, best first. A sequence is its last token and the live beam
/// that it grew from, one step earlier. All [requests, max_width] but `counts`.
struct BeamPool {
  View<std::int32_t> counts;   ///< [requests]; 0 at the start
  View<float> scores;          ///< [requests, max_width]; normalised
  View<float> cumulative;      ///< [requests, max_width]; scores before normalisation
  View<std::int32_t> lengths;  ///< [requests, max_width]; generated tokens, the end id included
  View<std::int32_t> beams;    ///< [requests, max_width]; which live beam it grew from
  View<std::int32_t> tokens;   ///< [requests, max_width]; its end id
};

/// Past live beams: [requests, max_steps, max_width]; entry (r, s, b) is beam b after s + 1
/// tokens: its last token and its parent among the beams after s tokens. Optional for a step, and
/// written by it at s = generated.
struct BeamHistory {
  View<std::int32_t> tokens;   ///< [requests, max_steps, max_width]
  View<std::int32_t> parents;  ///< [requests, max_steps, max_width]
  std::int32_t max_steps = 0;  ///< steps that the arrays have room for
};

/// One step. Row `row_begins[r] + b` is live beam b of request r.
struct BeamStepRequest {
  RowsView rows;                        ///< [rows, vocab], any dtype
  BeamInput input = BeamInput::logits;  ///< meaning of the rows
  std::int64_t requests = 0;            ///< number of requests, >= 0
  std::int32_t max_width = 1;           ///< places for beams a request, 1 to kMaxBeamWidth
  View<const std::int64_t> row_begins;  ///< [requests]
  View<const std::int32_t> live_beams;  ///< [requests], 0 to max_width; 1 in the first step
  View<const float> scores;             ///< [requests, max_width], of live beams; 0 in the first
  View<const std::int32_t> generated;   ///< [requests], tokens of live beams before this step
  View<const BeamState> states;         ///< [requests]; requests that are done do nothing
  BeamParameters parameters;            ///< one value for the call, or [requests]
};

/// Results of a step, [requests, max_width] where not said otherwise. Places after the last live
/// beam get -1 and -inf. The arrays may not be those that the step reads. A request that is done
/// already keeps its live beams: parents are themselves, tokens -1, scores as they were.
///
/// Statuses: inactive (done already), nan_input and infinite_input (a row, or a beam's score),
/// no_allowed_token (no candidate at all), index_out_of_range (rows or live beams out of their
/// range), invalid_history (`generated` not below max_tokens and max_steps, or a pool's count not
/// in [0, width]), invalid_beam (width, max_tokens, early_stopping, an end id), invalid_penalty
/// (length_penalty, or length^length_penalty is no positive float32). A failed request has no next
/// beams, and keeps its pool, its state and its length.
struct BeamStepResult {
  View<std::int32_t> parents;     ///< [requests, max_width]; which live beam a next beam grew from
  View<std::int32_t> tokens;      ///< [requests, max_width]; the last token of a next beam
  View<float> scores;             ///< [requests, max_width]; cumulative
  View<std::int32_t> live_beams;  ///< [requests]
  View<std::int32_t> generated;   ///< [requests], optional: tokens of live beams after this step
  View<BeamState> states;         ///< [requests]
  View<RowStatus> statuses;       ///< [requests], optional
  BeamPool pool;                  ///< read and written
  BeamHistory history;            ///< optional
};

/// One step of all requests. On an error nothing is written; what is wrong with one request fails
/// that request alone.
Error beam_search_step(const BeamStepRequest& request, const BeamStepResult& result,
                       const Execution& execution = {});

/// The end: the best sequences of each request, of its pool and, unless it is pool_done, of its
/// live beams (lengths are then `generated`; beams without a token do not count).
struct BeamResultRequest {
  std::int64_t requests = 0;                ///< number of requests, >= 0
  std::int32_t max_width = 1;               ///< as in the steps
  std::int32_t best = 1;                    ///< how many, 1 to max_width
  BeamPool pool;                            ///< as the last step left it
  BeamHistory history;                      ///< as the steps wrote it
  View<const std::int32_t> live_beams;      ///< [requests], after the last step
  View<const float> scores;                 ///< [requests, max_width], cumulative, of live beams
  View<const std::int32_t> generated;       ///< [requests], tokens of live beams
  View<const BeamState> states;             ///< [requests]
  PerRequest<float> length_penalty = 0.0F;  ///< as in the steps; scalar or [requests]
};

/// Statuses: index_out_of_range (live_beams), invalid_history (a parent, a length or a count out of
/// its range), invalid_penalty (length_penalty, or length^length_penalty is no positive float32),
/// nan_input (a score). Then the request has no sequence.
struct BeamSequences {
  View<std::int32_t> tokens;   ///< [requests, best, max_steps]; -1 after the last
  View<std::int32_t> lengths;  ///< [requests, best]; 0 where there is none
  View<float> scores;          ///< [requests, best], normalised; -inf where there is none
  View<float> cumulative;      ///< [requests, best], optional
  View<RowStatus> statuses;    ///< [requests], optional
};

/// Sequences in the order of normalised scores, of equal ones the pool's first, then live beams by
/// number.
Error beam_search_result(const BeamResultRequest& request, const BeamSequences& result);

}  // namespace fairdraw
