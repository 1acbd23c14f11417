// When a request ends: stop ids, stop sequences, lengths; and how much of a step's tokens is kept.
//
// A step gives a request one token, or several (speculation, multi-step scheduling). They are
// tested one after another; the first that ends the request ends it, and what comes after it in the
// same step is not part of the output (vLLM, vllm/v1/core/sched/scheduler.py, drops the tokens
// after a stop; TensorRT-LLM marks the request finished in its kernel). A token that would be
// output number m of its request (the first is 1) is tested in this order:
//   1. eos:           m >= min_tokens, it is the eos id, and ignore_eos is 0.
//   2. stop_id:       m >= min_tokens, and it is one of the stop ids.
//   3. stop_sequence: m >= min_tokens, and the output ends with one of the stop sequences. A
//                     sequence may begin in an earlier step, and before min_tokens; it never
//                     begins in the prompt.
//   4. length:        m >= max_tokens.
// So a stop wins over the length, and a sequence counts where it ends first. That is the order of
// vLLM (check_stop in vllm/v1/core/sched/utils.py; stop strings overrule its length), and that of
// TensorRT-LLM's TorchSampler (end id, length, stop words) up to the reason's name at the last
// token. If min_tokens also bans stop ids in the logits (logits_processing.h), the ban is stricter
// by one token: the ban counts the output before the token, this test counts the output with the
// token.
//
// ignore_eos is about the eos id alone: a stop id that equals it still stops, as in vLLM.
//
// Stop strings are text, whose tokens are not unique, and belong to the detokeniser; this
// knows ids alone. A stop string that is given as ids (TensorRT-LLM's stop words) is a stop
// sequence.
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

/// Why a request has ended.
enum class FinishReason : std::int32_t {
  none = 0,           ///< it goes on
  eos = 1,            ///< the eos id
  stop_id = 2,        ///< `matched`: its place in the request's stop ids
  stop_sequence = 3,  ///< `matched`: the number of the sequence in the request's list
  length = 4,         ///< max_tokens
};

/// Number of reasons, `none` included.
inline constexpr int kFinishReasons = 5;

/// Name of a reason, as in the enum.
const char* to_string(FinishReason reason) noexcept;

/// Name of a reason in an API that knows "stop" and "length" alone (OpenAI, vLLM, SGLang); null for
/// none.
const char* finish_reason_name(FinishReason reason) noexcept;

/// A request's `max_tokens` where the output may have any length.
inline constexpr std::int32_t kNoMaxTokens = std::numeric_limits<std::int32_t>::max();

/// When requests end. Lists are optional, and belong to the request.
struct StopCriteria {
  PerRequest<std::int32_t> eos_id = -1;  ///< scalar or [requests]; -1: none
  /// 1: the eos id does not end the request; scalar or [requests]
  PerRequest<std::uint8_t> ignore_eos = std::uint8_t{0};
  TokenLists stop_ids;               ///< ids that end the request; the id stays in the output
  TokenLists stop_sequences;         ///< the sequences of a request, one after the other
  TokenLists stop_sequence_lengths;  ///< of each sequence, >= 1; their sum is the list's length
  PerRequest<std::int32_t> min_tokens = 0;  ///< scalar or [requests]; >= 0
  /// scalar or [requests]; >= 0 and >= min_tokens. If the model has a limit, give the smaller of
  /// the two
  PerRequest<std::int32_t> max_tokens = kNoMaxTokens;
};

/// One step of a batch of requests.
struct StopRequest {
  std::int64_t requests = 0;       ///< number of requests, >= 0
  std::int64_t vocab = kMaxVocab;  ///< ids of criteria and of the step lie in [0, vocab)

  View<const std::int32_t> step_tokens;  ///< [requests, tokens_per_step]; -1 after a request's last
  std::int64_t tokens_per_step = 1;      ///< places of each request, >= 1

  /// Ids generated before this step, oldest first. Needed for sequences that straddle steps; the
  /// last ids suffice, one less than the longest sequence. An id of -1 (not known yet) never
  /// matches.
  TokenLists output;
  View<const std::int32_t> output_lengths;  ///< [requests] of the output before this step; without
                                            ///< it, the lengths of `output`

  StopCriteria criteria;            ///< scalar or [requests]; lists one per request
  View<const std::uint8_t> active;  ///< optional, [requests]; 0: has ended before, or is padding
};

/// Results, one a request. `reasons` and `kept` are needed, the rest is optional.
///
/// Statuses: invalid_history (`output` outside its buffer or longer than its length, an id of the
/// step that is no token), invalid_stop_criteria (a length out of its range, an eos id, stop id or
/// id of a sequence that is no token, a list outside its buffer, a sequence of length 0 or beyond
/// its list). Then reason is none, and none of the step's tokens is kept. Inactive requests: none
/// and 0.
struct StopResult {
  View<FinishReason> reasons;  ///< [requests]; none: the request goes on
  View<std::int32_t>
      kept;  ///< [requests]; tokens of this step that belong to the output, the stop included
  View<std::int32_t>
      matched;  ///< [requests]; which stop id or sequence (the first in its list); else -1
  View<std::int32_t> matched_lengths;  ///< [requests]; ids of the match, for those who cut it off:
                                       ///< 1 for eos and stop_id, the sequence's length, else 0
  View<std::int32_t> output_lengths;   ///< [requests]; of the output with the tokens that are kept
  View<RowStatus> statuses;            ///< [requests], optional
};

/// Applies the criteria. On an error (an array of the wrong length) nothing is written; what is
/// wrong with one request fails that request alone. A request whose output has max_tokens already
/// ends with `length` and keeps nothing.
Error check_stop(const StopRequest& request, const StopResult& result);

}  // namespace fairdraw
