// Rules of logits processing: the arithmetic and the checks of each step, and the order of the
// steps.
//
// Contract. The steps are defined in fairdraw/logits_processing.h; only this file defines how they
// are computed, for host and device. A processed logit is a function of the logit in the row and of
// the request's parameters and lists. The order of a list matters only for bad words, for
// `bias_ids`, where the last entry of an id is used, and for histories if bad words or rules of
// histories read them.
//
// Numerics. Each of the following operations is one float32 operation, which is rounded to nearest
// and keeps subnormal numbers.
//   1. x / r or x * r;   2. float(count), f * float(count), x - that product;   x - p;   3. x + b,
//   and a product by dry_base for each id, and x - the last product;   top_p * d.
// The value float(count) is the float32 nearest to the count, from which it may differ from 2^24 +
// 1 on. If the parameters are in their ranges, no step makes a NaN: products stay below 2^(64 +
// 31), no penalty is infinite, and -inf plus or minus a finite value is -inf. Only the logit x
// itself can become infinite.
//
// Precedence of statuses: the status of a row is the first in this list that applies, whatever
// other errors the row has.
//   inactive
//   parameters, whether scalars or arrays, and even if no list uses them:
//     temperature, top_k, top_p, min_p (parameters.h), then
//     repetition, frequency, presence penalty: invalid_penalty;   min_tokens: invalid_min_tokens;
//     top_n_sigma: invalid_top_n_sigma;   filters by probability: invalid_probability_filter;
//     rules of histories: invalid_history_rule
//   all values of the row, banned or not: nan_input, infinite_input
//   lists, in the order of the steps:
//     invalid_history      prompt, output, output_counts, output_lengths, dry_breakers
//     invalid_logit_bias   bias_ids, bias_values (including entries that a later one overrides)
//     invalid_min_tokens   stop_ids
//     invalid_bad_words    bad_words, bad_word_lengths
//     invalid_allowed_ids  forced_tokens, and allowed_ids if no token is forced
//   processing_overflow    any token, even if a later step bans it
//   no_allowed_token
//
// Only data that the processing reads is checked. The begin and the length of a list are always
// checked if the caller gives the list. The entries of all lists are checked, too, except of
// histories, of `dry_breakers`, and of `allowed_ids` while a token is forced. The ids of `prompt`
// are checked only if the repetition penalty is not 1, or if other penalties count the prompt; the
// ids of `output`, or the values of `output_counts`, are checked only if some penalty has an
// effect. With a penalty window, only the ids in the window are checked. So a row without penalties
// takes no time for its history. Bad words, n-grams, repetitions, breakers and `forced_after` are
// compared with the ids of the history without a check of these ids; an id below 0 equals no id.
#pragma once

#include <bit>
#include <cstdint>

#include "common/history_rules.h"
#include "common/host_device.h"
#include "common/philox.h"
#include "common/probability_filters.h"
#include "common/top_n_sigma.h"
#include "fairdraw/logits_processing.h"

namespace fairdraw {

/// Parameters of the processing of one row.
struct ProcessingParameters {
  float repetition = 1.0F;
  float frequency = 0.0F;
  float presence = 0.0F;
  std::int32_t min_tokens = 0;
  float top_n_sigma = 0.0F;
  ProbabilityFilters filters;
  HistoryRules history;
};

// A GPU loads and checks the parts of the parameters apart, and only those that a call gives.

FAIRDRAW_HOST_DEVICE inline void load_penalties(const LogitsProcessing& processing,
                                                std::int64_t row,
                                                ProcessingParameters& parameters) {
  parameters.repetition = processing.repetition_penalty.at(row);
  parameters.frequency = processing.frequency_penalty.at(row);
  parameters.presence = processing.presence_penalty.at(row);
  parameters.min_tokens = processing.min_tokens.at(row);
}

FAIRDRAW_HOST_DEVICE inline void load_filters(const LogitsProcessing& processing, std::int64_t row,
                                              ProcessingParameters& parameters) {
  parameters.top_n_sigma = processing.top_n_sigma.at(row);
  parameters.filters = ProbabilityFilters::of(processing, row);
}

FAIRDRAW_HOST_DEVICE inline ProcessingParameters parameters_of(const LogitsProcessing& processing,
                                                               std::int64_t row) {
  ProcessingParameters parameters;
  load_penalties(processing, row, parameters);
  load_filters(processing, row, parameters);
  parameters.history = HistoryRules::of(processing, row);
  return parameters;
}

/// Comparisons with NaN are false, so NaN is out of every range.
FAIRDRAW_HOST_DEVICE inline bool is_penalty(float value) {
  return value >= -kLargestPenalty && value <= kLargestPenalty;
}

FAIRDRAW_HOST_DEVICE inline RowStatus check_penalties(const ProcessingParameters& parameters) {
  const float repetition = parameters.repetition;
  if (!(repetition >= kSmallestRepetitionPenalty && repetition <= kLargestPenalty) ||
      !is_penalty(parameters.frequency) || !is_penalty(parameters.presence)) {
    return RowStatus::invalid_penalty;
  }
  return parameters.min_tokens < 0 ? RowStatus::invalid_min_tokens : RowStatus::ok;
}

FAIRDRAW_HOST_DEVICE inline RowStatus check_filters(const ProcessingParameters& parameters) {
  if (!is_top_n_sigma(parameters.top_n_sigma)) return RowStatus::invalid_top_n_sigma;
  return parameters.filters.are_valid() ? RowStatus::ok : RowStatus::invalid_probability_filter;
}

FAIRDRAW_HOST_DEVICE inline RowStatus check(const ProcessingParameters& parameters) {
  if (const RowStatus status = check_penalties(parameters); status != RowStatus::ok) return status;
  if (const RowStatus status = check_filters(parameters); status != RowStatus::ok) return status;
  return parameters.history.are_valid() ? RowStatus::ok : RowStatus::invalid_history_rule;
}

/// Returns whether the penalties read the output.
FAIRDRAW_HOST_DEVICE inline bool reads_output(const ProcessingParameters& parameters) {
  return parameters.repetition != 1.0F || parameters.frequency != 0.0F ||
         parameters.presence != 0.0F;
}
/// Returns whether the penalties read the prompt.
FAIRDRAW_HOST_DEVICE inline bool reads_prompt(const ProcessingParameters& parameters) {
  return parameters.repetition != 1.0F ||
         (parameters.history.counts_of_prompt != 0 && reads_output(parameters));
}

/// Turns the filter xtc off if its coin says so.
FAIRDRAW_HOST_DEVICE inline void toss_coins(ProbabilityFilters& filters,
                                            std::int32_t output_length) {
  if (filters.xtc_probability == 0.0F) return;
  const auto length = static_cast<std::uint64_t>(static_cast<std::int64_t>(output_length));
  const std::uint64_t word = random_word(filters.xtc_seed, length, Purpose::exclude, 0);
  const double chance = static_cast<double>(filters.xtc_probability) * 0x1p32;
  if (static_cast<double>(word >> 32) >= chance) filters.xtc_probability = 0.0F;
}

// --- Checks of lists ---------------------------------------------------------------------------

FAIRDRAW_HOST_DEVICE inline bool is_token(std::int32_t id, std::int64_t vocab) {
  return id >= 0 && id < vocab;
}

/// Returns whether every id of a list is a valid token.
FAIRDRAW_HOST_DEVICE inline bool all_are_tokens(const RowList& list, std::int64_t vocab) {
  for (std::int32_t i = 0; i < list.length; ++i) {
    if (!is_token(list.ids[i], vocab)) return false;
  }
  return true;
}

/// Id that stands in a history at a position whose token is not known yet.
inline constexpr std::int32_t kPlaceholder = -1;

FAIRDRAW_HOST_DEVICE inline bool is_history_id(std::int32_t id, std::int64_t vocab) {
  return id >= kPlaceholder && id < vocab;
}

/// Returns whether a bias is -inf, which bans its token.
FAIRDRAW_HOST_DEVICE inline bool is_ban(float bias) {
  return std::bit_cast<std::uint32_t>(bias) == 0xff800000U;
}

FAIRDRAW_HOST_DEVICE inline bool is_bias(float bias) { return is_penalty(bias) || is_ban(bias); }

/// Returns the number of output tokens, which is compared with `min_tokens`, and by which the coin
/// of xtc_probability is tossed.
FAIRDRAW_HOST_DEVICE inline std::int32_t output_length(const LogitsProcessing& processing,
                                                       std::int64_t row) {
  if (processing.output_lengths.given()) return processing.output_lengths.data[row];
  return processing.output.given() ? processing.output.lengths.data[row] : 0;
}

/// Returns whether an output of `length` ids ends with all ids of the word except the last id.
FAIRDRAW_HOST_DEVICE inline bool completes_word(const std::int32_t* word, std::int32_t word_length,
                                                const std::int32_t* output, std::int32_t length) {
  const std::int32_t prefix = word_length - 1;
  if (prefix > length) return false;
  for (std::int32_t i = 0; i < prefix; ++i) {
    if (word[i] != output[length - prefix + i]) return false;
  }
  return true;
}

// --- Arithmetic --------------------------------------------------------------------------------

namespace rounded {

// Fused multiply-adds are prevented by -ffp-contract=off on the host, and by intrinsics on the
// device.
#if defined(__CUDA_ARCH__)
__device__ inline float multiply(float a, float b) { return __fmul_rn(a, b); }
__device__ inline float divide(float a, float b) { return __fdiv_rn(a, b); }
__device__ inline float add(float a, float b) { return __fadd_rn(a, b); }
__device__ inline float subtract(float a, float b) { return __fsub_rn(a, b); }
__device__ inline float of_count(std::int32_t count) { return __int2float_rn(count); }
#else
FAIRDRAW_HOST_DEVICE inline float multiply(float a, float b) { return a * b; }
FAIRDRAW_HOST_DEVICE inline float divide(float a, float b) { return a / b; }
FAIRDRAW_HOST_DEVICE inline float add(float a, float b) { return a + b; }
FAIRDRAW_HOST_DEVICE inline float subtract(float a, float b) { return a - b; }
FAIRDRAW_HOST_DEVICE inline float of_count(std::int32_t count) { return static_cast<float>(count); }
#endif

}  // namespace rounded

/// Applies steps 1 and 2 of processing to the logit x of a token in the prompt or the output;
/// `count` is the number of times that the token occurs in the output, and in the prompt if the row
/// counts it.
FAIRDRAW_HOST_DEVICE inline float penalised(float x, std::int32_t count,
                                            const ProcessingParameters& parameters) {
  if (parameters.repetition != 1.0F) {
    x = x > 0.0F ? rounded::divide(x, parameters.repetition)
                 : rounded::multiply(x, parameters.repetition);
  }
  if (count == 0) return x;
  if (parameters.frequency != 0.0F) {
    x = rounded::subtract(x, rounded::multiply(parameters.frequency, rounded::of_count(count)));
  }
  return parameters.presence != 0.0F ? rounded::subtract(x, parameters.presence) : x;
}

/// Penalty of repetitions (dry_multiplier) of one row, by the number of ids that a token would
/// repeat.
class RepetitionPenalty {
 public:
  FAIRDRAW_HOST_DEVICE explicit RepetitionPenalty(const HistoryRules& rules) : rules_(rules) {}

  /// Returns the largest number of ids that counts, at most `most`, which is not below
  /// dry_allowed_length: no penalty grows beyond that number.
  FAIRDRAW_HOST_DEVICE std::int64_t longest(std::int64_t most) const {
    float penalty = 0.0F;
    return walk(most, penalty);
  }
  /// Returns the penalty for `repeated` ids, at least dry_allowed_length.
  FAIRDRAW_HOST_DEVICE float of(std::int64_t repeated) const {
    float penalty = 0.0F;
    walk(repeated, penalty);
    return penalty;
  }

 private:
  FAIRDRAW_HOST_DEVICE std::int64_t walk(std::int64_t most, float& penalty) const {
    penalty = rules_.dry_multiplier;
    std::int64_t length = rules_.dry_allowed_length;
    while (length < most && penalty < kLargestPenalty) {
      const float next = rounded::multiply(penalty, rules_.dry_base);
      if (next == penalty) break;
      penalty = next < kLargestPenalty ? next : kLargestPenalty;
      ++length;
    }
    return length;
  }

  const HistoryRules& rules_;
};

/// Returns whether a top_p of a call may decay.
inline bool decays(const LogitsProcessing& processing) {
  return processing.top_p_decay.is_array() || processing.top_p_decay.scalar != 1.0F;
}

/// Returns the top_p of a row, of which the request's own is `top_p`, after `tokens` ids of the
/// output that do not reset it. If the top_p or a rule is out of its range, the top_p stays as it
/// is, so that the row fails because of that.
///
/// Products never grow, so that the largest of the last product and top_p_min is the same as if
/// each product were compared. So only one product in kAtOnce is, which a GPU would wait for.
FAIRDRAW_HOST_DEVICE inline float decayed_top_p(float top_p, const HistoryRules& rules,
                                                std::int32_t tokens) {
  constexpr std::int32_t kAtOnce = 16;
  const bool in_range = top_p > 0.0F && top_p <= 1.0F && rules.are_valid();
  if (!in_range || rules.top_p_decay == 1.0F || tokens == 0) return top_p;
  while (tokens > 0 && top_p > rules.top_p_min) {
    for (std::int32_t i = 0; i < kAtOnce; ++i) {
      if (i < tokens) top_p = rounded::multiply(top_p, rules.top_p_decay);
    }
    tokens -= kAtOnce;
  }
  return top_p > rules.top_p_min ? top_p : rules.top_p_min;
}

/// Returns the top_p of a row's next token, on the host.
inline float top_p_now(const LogitsProcessing& processing, std::int64_t row, float top_p) {
  if (processing.top_p_decay.at(row) == 1.0F) return top_p;
  const HistoryRules rules = HistoryRules::of(processing, row);
  const RowList output = list_of(processing.output, row);
  std::int32_t after_reset = 0;
  while (after_reset < output.length) {
    const std::int32_t id = output.ids[output.length - 1 - after_reset];
    if (id >= 0 && id == rules.top_p_reset_id) break;
    ++after_reset;
  }
  return decayed_top_p(top_p, rules, after_reset);
}

/// Applies step 3 of processing to the logit x with a bias that is not a ban.
FAIRDRAW_HOST_DEVICE inline float biased(float x, float bias) { return rounded::add(x, bias); }

FAIRDRAW_HOST_DEVICE inline bool is_finite(float x) {
  return (std::bit_cast<std::uint32_t>(x) & 0x7f800000U) != 0x7f800000U;
}

/// Returns whether a processing step made a finite logit infinite.
FAIRDRAW_HOST_DEVICE inline bool overflowed(float before, float after) {
  return is_finite(before) && !is_finite(after);
}

}  // namespace fairdraw
