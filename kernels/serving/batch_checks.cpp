#include "serving/batch_checks.h"

#include <limits>
#include <string>
#include <type_traits>

#include "common/arguments.h"
#include "common/parameters.h"
#include "common/probability_filters.h"
#include "common/top_n_sigma.h"

namespace fairdraw::serving {
namespace {

std::string place_in(const char* list, std::size_t i) {
  return std::string(list) + "[" + std::to_string(i) + "]";
}

Error check_at_least(const char* field, std::int64_t value, std::int64_t least) {
  if (value >= least) return {};
  return out_of_range(field, std::to_string(value), ">= " + std::to_string(least));
}

/// Comparisons with NaN are false, so NaN is out of every range.
Error check_between(const std::string& field, float value, float least, float most,
                    const char* range) {
  if (value >= least && value <= most) return {};
  return out_of_range(field, text_of(value), range);
}

Error no_token(const std::string& field, std::int32_t token, std::int32_t least,
               std::int64_t vocab) {
  return out_of_range(field, std::to_string(token),
                      std::to_string(least) + " to " + std::to_string(vocab - 1));
}

Error check_room(const char* field, std::size_t length, std::int64_t room, const char* option) {
  if (length <= static_cast<std::size_t>(room)) return {};
  return out_of_range(std::string("length of ") + field, std::to_string(length),
                      "0 to " + std::to_string(room) + " (" + option + ")");
}

/// Checks a list of ids, and checks its length against the capacity that an option sets.
Error check_list(const char* field, const std::vector<std::int32_t>& ids, std::int64_t room,
                 const char* option, std::int64_t vocab) {
  if (Error error = check_room(field, ids.size(), room, option)) return error;
  return check_tokens(field, ids.data(), static_cast<std::int64_t>(ids.size()), 0, vocab);
}

Error check_filters(const BatchRequest& request) {
  const RowParameters parameters{request.temperature, request.top_k, request.top_p, request.min_p};
  switch (check(parameters)) {
    case RowStatus::ok:
      return {};
    case RowStatus::invalid_temperature:
      return out_of_range("temperature", text_of(request.temperature), "0, or 2^-126 to 2^64");
    case RowStatus::invalid_top_k:
      return out_of_range("top_k", std::to_string(request.top_k), ">= -1");
    case RowStatus::invalid_top_p:
      return out_of_range("top_p", text_of(request.top_p), "0 to 1");
    default:
      return out_of_range("min_p", text_of(request.min_p), "0 to 1");
  }
}

Error check_probability_filters(const BatchRequest& request) {
  const auto check_share = [](const char* field, auto value) {
    if constexpr (std::is_same_v<decltype(value), std::uint64_t>) {
      return Error{};  // a seed
    } else {
      return check_between(field, static_cast<float>(value), 0, 1, "0 to 1");
    }
  };
#define FAIRDRAW_CHAIN_PARAMETER(type, name, neutral)
#define FAIRDRAW_PROBABILITY_FILTER(type, name, neutral) \
  if (Error error = check_share(#name, request.name)) return error;
#include "fairdraw/processing_parameters.inc"
  if (!is_filter_chain(request.filter_chain)) {
    return out_of_range("filter_chain", std::to_string(request.filter_chain),
                        "0, or steps from 1 to " + std::to_string(kFilterSteps) +
                            " in groups of 4 bits, the first one lowest, and 12 (adaptive_p) only "
                            "as the last");
  }
  if (!is_chain_temperature(request.chain_temperature)) {
    return out_of_range("chain_temperature", text_of(request.chain_temperature), "2^-126 to 2^64");
  }
  if (Error error = check_at_least("chain_top_k", request.chain_top_k, -1)) return error;
  if (Error e = check_share("chain_top_p", request.chain_top_p)) return e;
  if (Error e = check_share("chain_min_p", request.chain_min_p)) return e;
  if (Error e = check_between("dynatemp_range", request.dynatemp_range, 0, kLargestTemperature,
                              "0 to 2^64")) {
    return e;
  }
  if (Error e = check_between("dynatemp_exponent", request.dynatemp_exponent, 0,
                              kLargestTemperature, "0 to 2^64")) {
    return e;
  }
  return check_between("adaptive_target", request.adaptive_target, -1, 1, "-1 to 1");
}

Error check_history_rules(const BatchRequest& request, const BatchStateOptions& options) {
  const auto check_lists = [&](const char* field, auto value, auto neutral) {
    const std::string off = text_of(neutral);
    if (value == neutral) return Error{};
    if (options.history == HistoryForm::dense) {
      return out_of_range(field, text_of(value), off + " with HistoryForm::dense");
    }
    if (!request.repetition_of_prompt) {
      return out_of_range("repetition_of_prompt", "false",
                          "true, or " + off + " for " + field + ", which reads the prompt");
    }
    return Error{};
  };
  // The other rules have no effect without one of these, or do not read the prompt.
  if (Error e = check_lists("penalty_window", request.penalty_window, -1)) return e;
  if (Error e = check_lists("counts_of_prompt", request.counts_of_prompt, 0)) return e;
  if (Error e = check_lists("no_repeat_ngram_size", request.no_repeat_ngram_size, 0)) return e;
  if (Error e = check_lists("dry_multiplier", request.dry_multiplier, 0.0F)) return e;
  if (Error e = check_lists("forced_after", request.forced_after, -1)) return e;
  if (options.history == HistoryForm::dense) {
    if (!request.forced_tokens.empty()) {
      return out_of_range("forced_tokens", "given", "none with HistoryForm::dense");
    }
    if (request.top_p_decay != 1.0F) {
      return out_of_range("top_p_decay", text_of(request.top_p_decay), "1 with HistoryForm::dense");
    }
  }
  if (Error error = check_at_least("no_repeat_ngram_size", request.no_repeat_ngram_size, 0)) {
    return error;
  }
  if (Error error = check_between("dry_multiplier", request.dry_multiplier, 0, kLargestPenalty,
                                  "0 to 2^64")) {
    return error;
  }
  if (Error error = check_between("dry_base", request.dry_base, 1, kLargestPenalty, "1 to 2^64")) {
    return error;
  }
  if (Error error = check_at_least("dry_allowed_length", request.dry_allowed_length, 1)) {
    return error;
  }
  if (Error error = check_at_least("dry_window", request.dry_window, -1)) return error;
  if (request.forced_after < -1 || request.forced_after >= options.vocab) {
    return no_token("forced_after", request.forced_after, -1, options.vocab);
  }
  if (Error error = check_at_least("forced_delay", request.forced_delay, 0)) return error;
  constexpr const char* kShare = "above 0, up to 1";
  if (Error error = check_between("top_p_decay", request.top_p_decay,
                                  std::numeric_limits<float>::denorm_min(), 1, kShare)) {
    return error;
  }
  if (Error error = check_between("top_p_min", request.top_p_min,
                                  std::numeric_limits<float>::denorm_min(), 1, kShare)) {
    return error;
  }
  if (request.top_p_reset_id < -1 || request.top_p_reset_id >= options.vocab) {
    return no_token("top_p_reset_id", request.top_p_reset_id, -1, options.vocab);
  }
  if (Error error = check_at_least("penalty_window", request.penalty_window, -1)) return error;
  if (request.counts_of_prompt != 0 && request.counts_of_prompt != 1) {
    return out_of_range("counts_of_prompt", std::to_string(request.counts_of_prompt), "0 or 1");
  }
  return {};
}

Error check_penalties(const BatchRequest& request) {
  constexpr const char* kRange = "-2^64 to 2^64";
  if (Error error = check_between("repetition_penalty", request.repetition_penalty,
                                  kSmallestRepetitionPenalty, kLargestPenalty, "2^-64 to 2^64")) {
    return error;
  }
  if (Error error = check_between("frequency_penalty", request.frequency_penalty, -kLargestPenalty,
                                  kLargestPenalty, kRange)) {
    return error;
  }
  return check_between("presence_penalty", request.presence_penalty, -kLargestPenalty,
                       kLargestPenalty, kRange);
}

Error check_bias(const BatchRequest& request, const BatchStateOptions& options) {
  if (Error error = check_room("bias", request.bias.size(), options.max_bias, "max_bias")) {
    return error;
  }
  for (std::size_t i = 0; i < request.bias.size(); ++i) {
    const TokenBias& entry = request.bias[i];
    const std::string place = place_in("bias", i);
    if (entry.token < 0 || entry.token >= options.vocab) {
      return no_token(place + ".token", entry.token, 0, options.vocab);
    }
    if (entry.bias == -std::numeric_limits<float>::infinity()) continue;
    if (Error error = check_between(place + ".bias", entry.bias, -kLargestPenalty, kLargestPenalty,
                                    "-inf, or -2^64 to 2^64")) {
      return error;
    }
  }
  return {};
}

Error check_bad_words(const BatchRequest& request, const BatchStateOptions& options) {
  const auto& words = request.bad_words;
  if (Error error = check_room("bad_words", words.size(), options.max_bad_words, "max_bad_words")) {
    return error;
  }
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string place = place_in("bad_words", i);
    if (words[i].empty()) return out_of_range("length of " + place, "0", ">= 1");
    if (Error error = check_tokens(place.c_str(), words[i].data(),
                                   static_cast<std::int64_t>(words[i].size()), 0, options.vocab)) {
      return error;
    }
    tokens += words[i].size();
  }
  return check_room("all bad_words together", tokens, options.max_bad_word_tokens,
                    "max_bad_word_tokens");
}

}  // namespace

Error check_tokens(const char* field, const std::int32_t* tokens, std::int64_t count,
                   std::int32_t least, std::int64_t vocab) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (tokens[i] >= least && tokens[i] < vocab) continue;
    return no_token(place_in(field, static_cast<std::size_t>(i)), tokens[i], least, vocab);
  }
  return {};
}

Error check_options(const BatchStateOptions& options) {
  if (options.vocab < 1 || options.vocab > kMaxVocab) {
    return out_of_range("vocab", std::to_string(options.vocab),
                        "1 to " + std::to_string(kMaxVocab));
  }
  if (Error e = check_at_least("capacity", options.capacity, 1)) return e;
  if (Error e = check_at_least("max_length", options.max_length, 1)) return e;
  if (Error e = check_at_least("max_bias", options.max_bias, 0)) return e;
  if (Error e = check_at_least("max_stop_ids", options.max_stop_ids, 0)) return e;
  if (Error e = check_at_least("max_bad_words", options.max_bad_words, 0)) return e;
  if (Error e = check_at_least("max_bad_word_tokens", options.max_bad_word_tokens, 0)) return e;
  if (Error e = check_at_least("max_allowed_ids", options.max_allowed_ids, 0)) return e;
  if (Error e = check_at_least("max_forced_tokens", options.max_forced_tokens, 0)) return e;
  if (Error e = check_at_least("max_dry_breakers", options.max_dry_breakers, 0)) return e;
  const auto check_choice = [](const char* field, auto choice, const char* choices) -> Error {
    const auto number = static_cast<std::uint32_t>(choice);
    return number <= 1 ? Error{} : out_of_range(field, std::to_string(number), choices);
  };
  if (Error e = check_choice("history", options.history, "0 (lists) or 1 (dense)")) return e;
  if (Error e = check_choice("tie_rule", options.tie_rule, "0 (keep_all) or 1 (lowest_id)")) {
    return e;
  }
  return check_choice("filter_order", options.filter_order, "0 (top_k_first) or 1 (joint)");
}

Error check_batch_request(const BatchRequest& request, const BatchStateOptions& options) {
  if (Error error = check_filters(request)) return error;
  if (Error error = check_penalties(request)) return error;
  if (Error error = check_at_least("min_tokens", request.min_tokens, 0)) return error;
  if (!is_top_n_sigma(request.top_n_sigma)) {
    return out_of_range("top_n_sigma", text_of(request.top_n_sigma), ">= 0, or -1");
  }
  if (Error error = check_probability_filters(request)) return error;
  if (Error error = check_history_rules(request, options)) return error;
  if (Error error = check_list("stop_ids", request.stop_ids, options.max_stop_ids, "max_stop_ids",
                               options.vocab)) {
    return error;
  }
  if (Error error = check_bias(request, options)) return error;
  if (Error error = check_bad_words(request, options)) return error;
  if (Error error = check_list("allowed_ids", request.allowed_ids, options.max_allowed_ids,
                               "max_allowed_ids", options.vocab)) {
    return error;
  }
  if (Error error = check_list("forced_tokens", request.forced_tokens, options.max_forced_tokens,
                               "max_forced_tokens", options.vocab)) {
    return error;
  }
  if (Error error = check_list("dry_breakers", request.dry_breakers, options.max_dry_breakers,
                               "max_dry_breakers", options.vocab)) {
    return error;
  }
  if (Error error = check_room("prompt", request.prompt.size(), options.max_length, "max_length")) {
    return error;
  }
  return check_tokens("prompt", request.prompt.data(),
                      static_cast<std::int64_t>(request.prompt.size()), -1, options.vocab);
}

Error check_snapshot(const RequestSnapshot& snapshot, const BatchStateOptions& options) {
  if (Error error = check_batch_request(snapshot.request, options)) return error;
  const std::size_t length = snapshot.request.prompt.size() + snapshot.output.size();
  if (Error error =
          check_room("prompt and output together", length, options.max_length, "max_length")) {
    return error;
  }
  if (Error error =
          check_tokens("output", snapshot.output.data(),
                       static_cast<std::int64_t>(snapshot.output.size()), 0, options.vocab)) {
    return error;
  }
  if (snapshot.allowed.empty()) return {};
  return check_length("allowed", static_cast<std::int64_t>(snapshot.allowed.size()),
                      words_of(options.vocab), "ceil(vocab / 32), or none");
}

}  // namespace fairdraw::serving
