// When a request ends.
//
// Contract. One pass over the tokens of a step for each request; fairdraw/stop_criteria.h has the
// order of the criteria. Requests are independent of each other: a bad one fails alone.
//
// Algorithm. A token is compared with the stop ids one after another, and a sequence with the end
// of the output from its last id backwards, so that one comparison dismisses nearly all of them.
// The output and the step's tokens are read as one string that is never copied. A request has a
// handful of stops and a step a handful of tokens: what it costs is reading the lists once, to
// check them.
#include "fairdraw/stop_criteria.h"

#include <algorithm>
#include <string>

#include "arguments.h"
#include "processing_rules.h"

namespace fairdraw {
namespace {

/// What is known of one request, checked.
struct Criteria {
  std::int32_t eos_id = -1;
  std::int32_t min_tokens = 0, max_tokens = kNoMaxTokens;
  RowList stop_ids, sequences, sequence_lengths;
};

/// The output with the tokens of the step behind it, as far as they are known.
struct Text {
  RowList before, step;

  /// The id `back` places before the step's token i; -1 where that is not known.
  std::int32_t id(std::int64_t i, std::int64_t back) const {
    const std::int64_t at = i - back;
    if (at >= 0) return step.ids[at];
    return before.length + at >= 0 ? before.ids[before.length + at] : kPlaceholder;
  }
};

struct Outcome {
  FinishReason reason = FinishReason::none;
  std::int32_t kept = 0, matched = -1, matched_length = 0;
  std::int64_t output_length = 0;
  RowStatus status = RowStatus::ok;
};

/// True where the list's lengths are those of words that fill it.
bool lengths_fill(const RowList& lengths, std::int32_t size) {
  std::int32_t left = size;
  for (std::int32_t i = 0; i < lengths.length; ++i) {
    if (lengths.ids[i] < 1 || lengths.ids[i] > left) return false;
    left -= lengths.ids[i];
  }
  return left == 0;
}

bool read_criteria(const StopRequest& request, std::int64_t r, Criteria& criteria) {
  const StopCriteria& given = request.criteria;
  criteria.min_tokens = given.min_tokens.at(r);
  criteria.max_tokens = given.max_tokens.at(r);
  const std::int32_t eos_id = given.eos_id.at(r);
  if (criteria.min_tokens < 0 || criteria.max_tokens < criteria.min_tokens) return false;
  if (eos_id < -1 || eos_id >= request.vocab) return false;
  criteria.eos_id = given.ignore_eos.at(r) != 0 ? -1 : eos_id;
  criteria.stop_ids = list_of(given.stop_ids, r);
  criteria.sequences = list_of(given.stop_sequences, r);
  criteria.sequence_lengths = list_of(given.stop_sequence_lengths, r);
  return criteria.stop_ids.in_buffer && criteria.sequences.in_buffer &&
         criteria.sequence_lengths.in_buffer && all_are_tokens(criteria.stop_ids, request.vocab) &&
         all_are_tokens(criteria.sequences, request.vocab) &&
         lengths_fill(criteria.sequence_lengths, criteria.sequences.length);
}

/// The number of the first sequence that the text up to the step's token i ends with; -1: none.
std::int32_t sequence_at_end(const Text& text, std::int64_t i, const Criteria& criteria) {
  const std::int32_t* begin = criteria.sequences.ids;
  for (std::int64_t s = 0; s < criteria.sequence_lengths.length; ++s) {
    const std::int32_t length = criteria.sequence_lengths.ids[s];
    std::int32_t back = 0;
    while (back < length && text.id(i, back) == begin[length - 1 - back]) ++back;
    if (back == length) return static_cast<std::int32_t>(s);
    begin += length;
  }
  return -1;
}

/// Whether the step's token i, output number m, ends the request.
bool ends_at(const Text& text, std::int64_t i, std::int64_t m, const Criteria& criteria,
             Outcome& outcome) {
  const std::int32_t token = text.step.ids[i];
  if (m >= criteria.min_tokens) {
    if (token == criteria.eos_id) {
      outcome.reason = FinishReason::eos;
      outcome.matched_length = 1;
      return true;
    }
    const std::int32_t* end = criteria.stop_ids.ids + criteria.stop_ids.length;
    const std::int32_t* found = std::find(criteria.stop_ids.ids, end, token);
    if (found != end) {
      outcome.reason = FinishReason::stop_id;
      outcome.matched = static_cast<std::int32_t>(found - criteria.stop_ids.ids);
      outcome.matched_length = 1;
      return true;
    }
    const std::int32_t sequence = sequence_at_end(text, i, criteria);
    if (sequence >= 0) {
      outcome.reason = FinishReason::stop_sequence;
      outcome.matched = sequence;
      outcome.matched_length = criteria.sequence_lengths.ids[sequence];
      return true;
    }
  }
  if (m < criteria.max_tokens) return false;
  outcome.reason = FinishReason::length;
  return true;
}

Outcome look_at(const StopRequest& request, std::int64_t r) {
  Outcome outcome;
  Text text;
  text.before = list_of(request.output, r);
  const std::int64_t length =
      request.output_lengths.given() ? request.output_lengths.data[r] : text.before.length;
  outcome.output_length = std::max<std::int64_t>(length, 0);
  if (request.active.given() && request.active.data[r] == 0) {
    outcome.status = RowStatus::inactive;
    return outcome;
  }
  const std::int32_t* step = request.step_tokens.data + r * request.tokens_per_step;
  text.step.ids = step;
  text.step.length = static_cast<std::int32_t>(
      std::find(step, step + request.tokens_per_step, kPlaceholder) - step);
  if (!text.before.in_buffer || length < text.before.length ||
      !all_are_tokens(text.step, request.vocab)) {
    outcome.status = RowStatus::invalid_history;
    return outcome;
  }
  Criteria criteria;
  if (!read_criteria(request, r, criteria)) {
    outcome.status = RowStatus::invalid_stop_criteria;
    return outcome;
  }
  if (length >= criteria.max_tokens) {
    outcome.reason = FinishReason::length;
    return outcome;
  }
  for (std::int64_t i = 0; i < text.step.length; ++i) {
    ++outcome.kept;
    ++outcome.output_length;
    if (ends_at(text, i, length + i + 1, criteria, outcome)) break;
  }
  return outcome;
}

Error check(const StopRequest& request, const StopResult& result) {
  const std::int64_t n = request.requests;
  const char* one = "one a request";
  const StopCriteria& c = request.criteria;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (n < 0 || n > kMost) return out_of_range("requests", std::to_string(n), "0 to 2^31 - 1");
  if (request.vocab < 1 || request.vocab > kMaxVocab) {
    return out_of_range("vocab", std::to_string(request.vocab),
                        "1 to " + std::to_string(kMaxVocab));
  }
  if (request.tokens_per_step < 0 || request.tokens_per_step > kMost) {
    return out_of_range("tokens_per_step", std::to_string(request.tokens_per_step),
                        "0 to 2^31 - 1");
  }
  if (Error e = check_length("step_tokens", request.step_tokens.size, n * request.tokens_per_step,
                             "requests * tokens_per_step")) {
    return e;
  }
  if (Error e = check_token_lists(request.output, "output", n, one)) return e;
  if (Error e = check_optional(request.output_lengths, "output_lengths", n, one)) return e;
  if (Error e = check_optional(request.active, "active", n, one)) return e;
  if (Error e = check_per_request(c.eos_id, "eos_id", n, one)) return e;
  if (Error e = check_per_request(c.ignore_eos, "ignore_eos", n, one)) return e;
  if (Error e = check_per_request(c.min_tokens, "min_tokens", n, one)) return e;
  if (Error e = check_per_request(c.max_tokens, "max_tokens", n, one)) return e;
  if (Error e = check_token_lists(c.stop_ids, "stop_ids", n, one)) return e;
  if (Error e = check_token_lists(c.stop_sequences, "stop_sequences", n, one)) return e;
  if (Error e = check_token_lists(c.stop_sequence_lengths, "stop_sequence_lengths", n, one)) {
    return e;
  }
  if (c.stop_sequences.given() != c.stop_sequence_lengths.given()) {
    return out_of_range("stop_sequences without stop_sequence_lengths, or the other way round",
                        "one of two", "both or neither");
  }
  if (Error e = check_length("reasons", result.reasons.size, n, one)) return e;
  if (Error e = check_length("kept", result.kept.size, n, one)) return e;
  if (Error e = check_optional(result.matched, "matched", n, one)) return e;
  if (Error e = check_optional(result.matched_lengths, "matched_lengths", n, one)) return e;
  if (Error e = check_optional(result.output_lengths, "result.output_lengths", n, one)) return e;
  return check_optional(result.statuses, "statuses", n, one);
}

}  // namespace

const char* to_string(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::none:
      return "none";
    case FinishReason::eos:
      return "eos";
    case FinishReason::stop_id:
      return "stop_id";
    case FinishReason::stop_sequence:
      return "stop_sequence";
    case FinishReason::length:
      return "length";
  }
  return "unknown";
}

const char* finish_reason_name(FinishReason reason) noexcept {
  if (reason == FinishReason::none) return nullptr;
  return reason == FinishReason::length ? "length" : "stop";
}

Error check_stop(const StopRequest& request, const StopResult& result) {
  if (Error error = check(request, result)) return error;
  for (std::int64_t r = 0; r < request.requests; ++r) {
    const Outcome outcome = look_at(request, r);
    result.reasons.data[r] = outcome.reason;
    result.kept.data[r] = outcome.kept;
    if (result.matched.given()) result.matched.data[r] = outcome.matched;
    if (result.matched_lengths.given()) result.matched_lengths.data[r] = outcome.matched_length;
    if (result.statuses.given()) result.statuses.data[r] = outcome.status;
    if (!result.output_lengths.given()) continue;
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    result.output_lengths.data[r] =
        static_cast<std::int32_t>(std::min(outcome.output_length, kMost));
  }
  return {};
}

}  // namespace fairdraw
