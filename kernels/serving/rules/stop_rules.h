// Stop criteria of one request, and the walk over the tokens of the request's step. The rules are
// the same for every backend, and defined in fairdraw/stop_criteria.h.
//
// A token is compared with one stop id after another. A stop sequence is compared with the end of
// the output from its last id backwards, so that a single comparison excludes nearly every
// sequence. The output and the tokens of the step are read as one string of tokens, which is never
// copied. Requests have few stop ids and sequences, and steps have few tokens, so most of the cost
// is reading the lists once to check them.
#pragma once

#include <cstdint>
#include <limits>

#include "common/host_device.h"
#include "common/processing_rules.h"
#include "fairdraw/stop_criteria.h"

namespace fairdraw {

/// Stop criteria of one request, which have been checked.
struct StopTerms {
  std::int32_t eos_id = -1;
  std::int32_t min_tokens = 0, max_tokens = kNoMaxTokens;
  RowList stop_ids, sequences, sequence_lengths;
};

/// Text that consists of the output and the tokens of the step, as far as these tokens are known.
struct StopText {
  RowList before, step;

  /// Returns the id `back` positions before token i of the step, or kPlaceholder if this id is
  /// unknown.
  FAIRDRAW_HOST_DEVICE std::int32_t id(std::int64_t i, std::int64_t back) const {
    const std::int64_t at = i - back;
    if (at >= 0) return step.ids[at];
    return before.length + at >= 0 ? before.ids[before.length + at] : kPlaceholder;
  }
};

/// Effect of a step on a request: the finish reason, the kept tokens, the match, the output length
/// and the status.
struct StopOutcome {
  FinishReason reason = FinishReason::none;
  std::int32_t kept = 0, matched = -1, matched_length = 0;
  std::int64_t output_length = 0;
  RowStatus status = RowStatus::ok;
};

/// Returns whether all lengths are positive and their sum is `size`.
FAIRDRAW_HOST_DEVICE inline bool lengths_fill(const RowList& lengths, std::int32_t size) {
  std::int32_t left = size;
  for (std::int32_t i = 0; i < lengths.length; ++i) {
    if (lengths.ids[i] < 1 || lengths.ids[i] > left) return false;
    left -= lengths.ids[i];
  }
  return left == 0;
}

/// Reads the stop criteria, or returns false if one of them is out of range.
FAIRDRAW_HOST_DEVICE inline bool read_stop_terms(const StopRequest& request, std::int64_t r,
                                                 StopTerms& terms) {
  const StopCriteria& given = request.criteria;
  terms.min_tokens = given.min_tokens.at(r);
  terms.max_tokens = given.max_tokens.at(r);
  const std::int32_t eos_id = given.eos_id.at(r);
  if (terms.min_tokens < 0 || terms.max_tokens < terms.min_tokens) return false;
  if (eos_id < -1 || eos_id >= request.vocab) return false;
  terms.eos_id = given.ignore_eos.at(r) != 0 ? -1 : eos_id;
  terms.stop_ids = list_of(given.stop_ids, r);
  terms.sequences = list_of(given.stop_sequences, r);
  terms.sequence_lengths = list_of(given.stop_sequence_lengths, r);
  return terms.stop_ids.in_buffer && terms.sequences.in_buffer &&
         terms.sequence_lengths.in_buffer && all_are_tokens(terms.stop_ids, request.vocab) &&
         all_are_tokens(terms.sequences, request.vocab) &&
         lengths_fill(terms.sequence_lengths, terms.sequences.length);
}

/// Returns the first position of an id in a list, or -1 if the list does not have the id.
FAIRDRAW_HOST_DEVICE inline std::int32_t place_of(std::int32_t id, const RowList& list) {
  for (std::int32_t i = 0; i < list.length; ++i) {
    if (list.ids[i] == id) return i;
  }
  return -1;
}

/// Returns the number of the first stop sequence with which the text up to token i of the step
/// ends, or -1 if there is none.
FAIRDRAW_HOST_DEVICE inline std::int32_t sequence_at_end(const StopText& text, std::int64_t i,
                                                         const StopTerms& terms) {
  const std::int32_t* begin = terms.sequences.ids;
  for (std::int32_t s = 0; s < terms.sequence_lengths.length; ++s) {
    const std::int32_t length = terms.sequence_lengths.ids[s];
    std::int32_t back = 0;
    while (back < length && text.id(i, back) == begin[length - 1 - back]) ++back;
    if (back == length) return s;
    begin += length;
  }
  return -1;
}

/// Returns whether token i of the step, which is output token number m, ends the request.
FAIRDRAW_HOST_DEVICE inline bool ends_at(const StopText& text, std::int64_t i, std::int64_t m,
                                         const StopTerms& terms, StopOutcome& outcome) {
  const std::int32_t token = text.step.ids[i];
  if (m >= terms.min_tokens) {
    if (token == terms.eos_id) {
      outcome.reason = FinishReason::eos;
      outcome.matched_length = 1;
      return true;
    }
    const std::int32_t stop = place_of(token, terms.stop_ids);
    if (stop >= 0) {
      outcome.reason = FinishReason::stop_id;
      outcome.matched = stop;
      outcome.matched_length = 1;
      return true;
    }
    const std::int32_t sequence = sequence_at_end(text, i, terms);
    if (sequence >= 0) {
      outcome.reason = FinishReason::stop_sequence;
      outcome.matched = sequence;
      outcome.matched_length = terms.sequence_lengths.ids[sequence];
      return true;
    }
  }
  if (m < terms.max_tokens) return false;
  outcome.reason = FinishReason::length;
  return true;
}

/// Returns the tokens of the step of request r, up to the first placeholder.
FAIRDRAW_HOST_DEVICE inline RowList step_of(const StopRequest& request, std::int64_t r) {
  RowList step;
  step.begin = r * request.tokens_per_step;
  step.ids = request.step_tokens.data + step.begin;
  while (step.length < request.tokens_per_step && step.ids[step.length] != kPlaceholder) {
    ++step.length;
  }
  return step;
}

/// Computes the effect that the step has on request r.
FAIRDRAW_HOST_DEVICE inline StopOutcome stop_outcome(const StopRequest& request, std::int64_t r) {
  StopOutcome outcome;
  StopText text;
  text.before = list_of(request.output, r);
  const std::int64_t length =
      request.output_lengths.given() ? request.output_lengths.data[r] : text.before.length;
  outcome.output_length = length > 0 ? length : 0;
  if (request.active.given() && request.active.data[r] == 0) {
    outcome.status = RowStatus::inactive;
    return outcome;
  }
  text.step = step_of(request, r);
  if (!text.before.in_buffer || length < text.before.length ||
      !all_are_tokens(text.step, request.vocab)) {
    outcome.status = RowStatus::invalid_history;
    return outcome;
  }
  StopTerms terms;
  if (!read_stop_terms(request, r, terms)) {
    outcome.status = RowStatus::invalid_stop_criteria;
    return outcome;
  }
  if (length >= terms.max_tokens) {
    outcome.reason = FinishReason::length;
    return outcome;
  }
  for (std::int64_t i = 0; i < text.step.length; ++i) {
    ++outcome.kept;
    ++outcome.output_length;
    if (ends_at(text, i, length + i + 1, terms, outcome)) break;
  }
  return outcome;
}

/// Writes the outcome of request r to the arrays that the caller gave.
FAIRDRAW_HOST_DEVICE inline void write_stop_outcome(const StopOutcome& outcome,
                                                    const StopResult& result, std::int64_t r) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  result.reasons.data[r] = outcome.reason;
  result.kept.data[r] = outcome.kept;
  if (result.matched.given()) result.matched.data[r] = outcome.matched;
  if (result.matched_lengths.given()) result.matched_lengths.data[r] = outcome.matched_length;
  if (result.output_lengths.given()) {
    const std::int64_t length = outcome.output_length < kMax ? outcome.output_length : kMax;
    result.output_lengths.data[r] = static_cast<std::int32_t>(length);
  }
  if (result.statuses.given()) result.statuses.data[r] = outcome.status;
}

/// Checks the arguments of a call of check_stop.
Error check_stop_arguments(const StopRequest& request, const StopResult& result);

}  // namespace fairdraw
