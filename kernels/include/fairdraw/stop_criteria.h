// check_stop decides whether a step ends a request (by stop ids, stop sequences or lengths), and
// how many of the step's tokens are kept.
//
// A step gives a request one token, or several tokens (speculation, multi-step scheduling). The
// tokens of a step are tested one after another. The first token that ends the request does so, and
// the step's later tokens are not part of the output (vLLM, vllm/v1/core/sched/scheduler.py, drops
// the tokens after a stop; TensorRT-LLM marks the request finished in its kernel). The tests of a
// token that would be output number m of its request (the first is 1) have this order.
//   1. eos:           m >= min_tokens, the token is the eos id, and ignore_eos is 0.
//   2. stop_id:       m >= min_tokens, and the token is one of the stop ids.
//   3. stop_sequence: m >= min_tokens, and the output ends with one of the stop sequences. A
//                     sequence may begin in an earlier step, and before min_tokens; it never
//                     begins in the prompt.
//   4. length:        m >= max_tokens.
// So a stop id or a stop sequence wins over the length, and a sequence ends the request at the
// first token at which it is complete. This order of tests is that of vLLM (check_stop in
// vllm/v1/core/sched/utils.py; stop strings overrule its length). TensorRT-LLM's TorchSampler (end
// id, length, stop words) has the same order, up to the name of the reason at the last token. If
// min_tokens also bans stop ids in the logits (logits_processing.h), the ban is stricter by one
// token: the ban counts the output without the new token, and this test counts the output with the
// new token.
//
// ignore_eos concerns the eos id alone: a stop id that equals the eos id still ends the request, as
// in vLLM.
//
// Stop strings are text, whose tokens are not unique. Stop strings belong to the detokeniser,
// because check_stop knows ids alone. A stop string that is given as ids (TensorRT-LLM's stop
// words) is a stop sequence.
//
// Errors: check_stop() returns invalid_argument if a field is out of its range or an array has the
// wrong length; then it writes nothing. A fault of one request fails that request alone, with a
// status of StopResult.
//
// Definition: vLLM (check_stop in vllm/v1/core/sched/utils.py) and TensorRT-LLM's TorchSampler, as
// above.
#pragma once

#include <cstdint>
#include <limits>

#include "fairdraw/token_lists.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Reason why a request has ended.
enum class FinishReason : std::int32_t {
  none = 0,           ///< it goes on
  eos = 1,            ///< the eos id
  stop_id = 2,        ///< `matched` is the place of the id in the request's stop ids
  stop_sequence = 3,  ///< `matched` is the number of the sequence in the request's list
  length = 4,         ///< max_tokens
};

/// Number of finish reasons, `none` included.
inline constexpr int kFinishReasons = 5;

/// Returns the name of a reason, as in the enum.
const char* to_string(FinishReason reason) noexcept;

/// Returns the name of a reason in an API that knows "stop" and "length" alone (OpenAI, vLLM,
/// SGLang); null for none.
const char* finish_reason_name(FinishReason reason) noexcept;

/// Value of a request's `max_tokens` that allows any length of the output.
inline constexpr std::int32_t kNoMaxTokens = std::numeric_limits<std::int32_t>::max();

/// When requests end. Criteria by which requests end. Lists are optional, and belong to the
/// request.
struct StopCriteria {
  PerRequest<std::int32_t> eos_id = -1;  ///< scalar or [requests]; -1: the request has no eos id
  /// scalar or [requests]; 1: the eos id does not end the request
  PerRequest<std::uint8_t> ignore_eos = std::uint8_t{0};
  TokenLists stop_ids;               ///< ids that end the request; such an id stays in the output
  TokenLists stop_sequences;         ///< the stop sequences of a request, one after the other
  TokenLists stop_sequence_lengths;  ///< length of each sequence, >= 1; the lengths sum to the
                                     ///< length of the request's list
  PerRequest<std::int32_t> min_tokens = 0;  ///< scalar or [requests]; >= 0
  /// Scalar or [requests]: largest number of tokens of the output, >= 0 and >= min_tokens. If the
  /// model has a limit of its own, give the smaller of the two limits
  PerRequest<std::int32_t> max_tokens = kNoMaxTokens;
};

/// One step of generation for a batch of requests.
struct StopRequest {
  std::int64_t requests = 0;       ///< number of requests, >= 0
  std::int64_t vocab = kMaxVocab;  ///< size of the vocabulary; ids of criteria and of the step lie
                                   ///< in [0, vocab)

  View<const std::int32_t> step_tokens;  ///< [requests, tokens_per_step]; -1 after a request's last
                                         ///< token
  std::int64_t tokens_per_step = 1;      ///< number of places for tokens of each request, >= 1

  /// Ids that the request generated before this step, oldest first. The ids are needed for
  /// sequences that straddle steps; the last ids suffice, one fewer than the longest sequence has.
  /// An id of -1 (a token that is not known yet) never matches.
  TokenLists output;
  View<const std::int32_t> output_lengths;  ///< [requests]; lengths of the output before this step;
                                            ///< without it, the lengths of `output`

  StopCriteria criteria;            ///< the criteria of each request
  View<const std::uint8_t> active;  ///< [requests], optional; 0: the request has ended before, or
                                    ///< is padding
};

/// Results, one a request. `reasons` and `kept` are needed, and the other members are optional.
///
/// Statuses: invalid_history (`output` outside its buffer or longer than its length, or an id of
/// the step that is not a token), invalid_stop_criteria (a length out of its range; an eos id, stop
/// id or id of a sequence that is not a token; a list outside its buffer; a sequence of length 0 or
/// beyond its list). A request with one of these statuses has the reason `none`, and none of its
/// tokens of the step is kept. Inactive requests have reason none and keep 0 tokens.
struct StopResult {
  View<FinishReason> reasons;  ///< [requests]; none: the request continues
  View<std::int32_t> kept;     ///< [requests]; number of tokens of this step that belong to the
                               ///< output, the stop included
  View<std::int32_t> matched;  ///< [requests]; place of the stop id or sequence in its list (of the
                               ///< first that matches), otherwise -1
  View<std::int32_t> matched_lengths;  ///< [requests]; number of ids of the match, for callers who
                                       ///< remove them: 1 for eos and stop_id, the sequence's
                                       ///< length for a sequence, otherwise 0
  View<std::int32_t> output_lengths;   ///< [requests]; length of the output with the tokens that
                                       ///< are kept
  View<RowStatus> statuses;            ///< [requests], optional
};

/// Applies the criteria. If the call returns an error (an array of the wrong length), nothing is
/// written. A fault in one request fails that request alone. A request whose output already has
/// max_tokens tokens ends with `length` and keeps no token.
Error check_stop(const StopRequest& request, const StopResult& result);

}  // namespace fairdraw
