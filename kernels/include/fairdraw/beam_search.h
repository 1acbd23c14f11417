// A call does one step of beam search for a batch of requests; another call gives the best
// sequences at the end.
//
// A request has up to `width` live beams, and a pool of up to `width` finished sequences. A live
// beam is an unfinished sequence with its cumulative log-probability. A step does the following for
// each request.
//   1. Every (beam, token) is a candidate with score(beam) + logprob(token), unless that is -inf.
//      The best (1 + e) * width candidates count, e being the number of end ids, but at least 1. So
//      many candidates include `width` candidates that do not end (2 * width in TensorRT-LLM,
//      max(2, 1 + e) * width in Hugging Face). Candidates are ordered by score, larger first, then
//      by beam, then by token id, lower first.
//   2. The candidates are taken in that order. A candidate that ends (its token is an end id) joins
//      the pool if it is among the first `width` candidates, and is dropped otherwise. A candidate
//      that does not end is a live beam of the next step, until there are `width` live beams.
//   3. The pool holds the `width` sequences with the best normalised scores, cumulative /
//      length^length_penalty. The length is the number of generated tokens with the end id. Of
//      equal scores the earlier sequence is kept, and stays in front.
//   4. The request is done when its pool is full and early_stopping allows it:
//        1: at once.
//        0: if no live beam seems to get better, that is, the pool's worst score is at least the
//           best candidate's cumulative score / (this length)^length_penalty.
//        2: if no live beam can get better: as for 0, with max_tokens for the length if
//           length_penalty > 0.
//      The request is also done when max_tokens are generated, or when no live beam is left. Then
//      its live beams, ended by length, count with the pool in the end.
//
// The values of early_stopping have TensorRT-LLM's meaning
// (cpp/tensorrt_llm/kernels/beamSearchKernels: 1, 0, and any other number), which is that of
// Hugging Face's True, False and "never" (BeamSearchScorer). Differences: in TensorRT-LLM a
// finished sequence that equals the worst one of a full pool displaces the worst one; in Hugging
// Face and here it does not. If early_stopping is 2, TensorRT-LLM drops all candidates after the
// first candidate that ends too badly for a full pool. In TensorRT-LLM the dropped candidates leave
// stale beams behind; here they do not.
//
// The arithmetic is fixed, so that every backend gives the same bits. For rows of logits, logprob
// is the float32 of ((double)x - (double)max) - log(Z / W). Z is the sum of the row's integer
// weights at temperature 1, and W the weight of the largest logit (log_probabilities.h bounds the
// error). For rows of log-probabilities, logprob is the float32 that is given. A new score is the
// sum of score(beam) and logprob, in one float32 addition. A normalised score is a float32 division
// by (float)pow((double)length, (double)length_penalty); a penalty of 0 divides by 1.
//
// Penalties, minimum lengths and bans apply to the logits: process the logits first, and give the
// result as logits or log-probabilities. Diverse beam search is not offered: diversity_rate must be
// 0.
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

/// Largest beam width, the same as TensorRT-LLM's (kMaxBeamWidth).
inline constexpr std::int32_t kMaxBeamWidth = 1024;

/// Contents of rows.
enum class BeamInput : std::uint32_t {
  logits = 0,    ///< raw logits
  logprobs = 1,  ///< log-probabilities, natural
};

/// Parameters of requests.
struct BeamParameters {
  /// number of live beams; scalar or [requests]; 1 to max_width, the same in all steps
  PerRequest<std::int32_t> width = 1;
  /// exponent of the length in a normalised score; scalar or [requests]; finite; the default is 0
  /// in TensorRT-LLM, 1 in Hugging Face
  PerRequest<float> length_penalty = 0.0F;
  PerRequest<std::int32_t> early_stopping = 1;  ///< rule by which a request with a full pool is
                                                ///< done; scalar or [requests]; 0, 1 or 2
  PerRequest<float> diversity_rate = 0.0F;      ///< scalar or [requests]; must be 0, and any other
                                                ///< value is refused
  /// largest number of generated tokens, the end id included; scalar or [requests]; >= 1
  PerRequest<std::int32_t> max_tokens = 1;
  TokenLists end_ids;  ///< optional
};

/// State of a request.
enum class BeamState : std::int32_t {
  live = 0,         ///< it goes on
  pool_done = 1,    ///< the request is done, and returns the sequences of its pool
  length_done = 2,  ///< the request is done by its length, and its live beams count too
};

/// The finished sequences of each request, best sequence first. A sequence is stored as its last
/// token and the number of the live beam that it grew from, one step earlier. All arrays are
/// [requests, max_width], except for `counts`.
struct BeamPool {
  View<std::int32_t> counts;   ///< [requests]; number of finished sequences, 0 before the first
                               ///< step
  View<float> scores;          ///< [requests, max_width]; normalised scores
  View<float> cumulative;      ///< [requests, max_width]; cumulative scores, before they are
                               ///< normalised
  View<std::int32_t> lengths;  ///< [requests, max_width]; numbers of generated tokens, the end id
                               ///< included
  View<std::int32_t> beams;    ///< [requests, max_width]; number of the live beam that the sequence
                               ///< grew from
  View<std::int32_t> tokens;   ///< [requests, max_width]; the end id of the sequence
};

/// The live beams of all past steps. In [requests, max_steps, max_width], entry (r, s, b) is beam b
/// of request r after s + 1 tokens: its last token, and the number of its parent among the beams
/// after s tokens. The history is optional for a step, which writes it at s = generated.
struct BeamHistory {
  View<std::int32_t> tokens;   ///< [requests, max_steps, max_width]; last tokens of the beams
  View<std::int32_t> parents;  ///< [requests, max_steps, max_width]; numbers of the beams' parents
  std::int32_t max_steps = 0;  ///< number of steps that the arrays have room for
};

/// One step. Row `row_begins[r] + b` is live beam b of request r.
struct BeamStepRequest {
  RowsView rows;                        ///< [rows, vocab]; values of any dtype
  BeamInput input = BeamInput::logits;  ///< kind of the rows: logits or log-probabilities
  std::int64_t requests = 0;            ///< number of requests, >= 0
  std::int32_t max_width = 1;           ///< number of places for beams in a request, 1 to
                                        ///< kMaxBeamWidth
  View<const std::int64_t> row_begins;  ///< [requests]
  View<const std::int32_t> live_beams;  ///< [requests]; number of live beams, 0 to max_width; 1 in
                                        ///< the first step
  View<const float> scores;             ///< [requests, max_width]; scores of the live beams; 0 in
                                        ///< the first step
  View<const std::int32_t> generated;   ///< [requests]; number of tokens of the live beams before
                                        ///< this step
  View<const BeamState> states;         ///< [requests]; state of the requests; nothing is done for
                                        ///< those that are done
  BeamParameters parameters;            ///< parameters, each as one value for the call, or
                                        ///< [requests]
};

/// Results of a step. The arrays are [requests, max_width] unless their comment says otherwise.
/// Places after the last live beam get token -1 and score -inf. The arrays of the result must not
/// be those that the step reads. A request that is done already keeps its live beams: each beam is
/// its own parent, with token -1 and an unchanged score.
///
/// Statuses: inactive (done already), nan_input and infinite_input (a row, or a beam's score),
/// no_allowed_token (no candidate at all), index_out_of_range (rows or live beams out of their
/// range), invalid_history (`generated` not below max_tokens and max_steps, or a pool's count not
/// in [0, width]), invalid_beam (width, max_tokens, early_stopping, an end id), invalid_penalty
/// (length_penalty, or length^length_penalty is no positive float32). A failed request has no next
/// beams, and keeps its pool, its state and its length.
struct BeamStepResult {
  View<std::int32_t> parents;     ///< [requests, max_width]; number of the live beam from which
                                  ///< each beam of the next step grew
  View<std::int32_t> tokens;      ///< [requests, max_width]; last token of each beam of the next
                                  ///< step
  View<float> scores;             ///< [requests, max_width]; cumulative scores of the beams
  View<std::int32_t> live_beams;  ///< [requests]
  View<std::int32_t> generated;   ///< [requests], optional: number of tokens of the live beams
                                  ///< after this step
  View<BeamState> states;         ///< [requests]
  View<RowStatus> statuses;       ///< [requests], optional
  BeamPool pool;                  ///< read and written
  BeamHistory history;            ///< optional
};

/// Does one step of beam search for all requests. If the call returns an error, nothing is written.
/// A fault in one request fails that request alone.
Error beam_search_step(const BeamStepRequest& request, const BeamStepResult& result,
                       const Execution& execution = {});

/// The arrays at the end of a search, from which the best sequences of each request are chosen:
/// those of its pool and, unless its state is pool_done, its live beams. A live beam's length is
/// `generated`, and beams without a token do not count.
struct BeamResultRequest {
  std::int64_t requests = 0;                ///< number of requests, >= 0
  std::int32_t max_width = 1;               ///< number of places for beams, as in the steps
  std::int32_t best = 1;                    ///< number of sequences that are wanted, 1 to max_width
  BeamPool pool;                            ///< the pool as the last step left it
  BeamHistory history;                      ///< the history as the steps wrote it
  View<const std::int32_t> live_beams;      ///< [requests]; number of live beams after the last
                                            ///< step
  View<const float> scores;                 ///< [requests, max_width]; cumulative scores of the
                                            ///< live beams
  View<const std::int32_t> generated;       ///< [requests]; number of tokens of the live beams
  View<const BeamState> states;             ///< [requests]
  PerRequest<float> length_penalty = 0.0F;  ///< length_penalty of the steps; scalar or [requests]
};

/// Statuses: index_out_of_range (live_beams), invalid_history (a parent, a length or a count out of
/// its range), invalid_penalty (length_penalty, or length^length_penalty is no positive float32),
/// nan_input (a score). A request with one of these statuses has no sequence.
struct BeamSequences {
  View<std::int32_t> tokens;   ///< [requests, best, max_steps]; tokens of the sequences, -1 after
                               ///< the last
  View<std::int32_t> lengths;  ///< [requests, best]; number of tokens of a sequence; 0 for a
                               ///< missing sequence
  View<float> scores;          ///< [requests, best]; normalised scores; -inf for a missing sequence
  View<float> cumulative;      ///< [requests, best], optional
  View<RowStatus> statuses;    ///< [requests], optional
};

/// Chooses the best sequences in the order of their normalised scores. Among equal scores, those of
/// the pool come first, then the live beams by their number.
Error beam_search_result(const BeamResultRequest& request, const BeamSequences& result);

}  // namespace fairdraw
