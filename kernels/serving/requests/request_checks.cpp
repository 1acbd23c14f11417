#include "serving/requests/request_checks.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "common/arguments.h"
#include "common/parameters.h"
#include "fairdraw/logits_processing.h"

namespace fairdraw::requests {
namespace {

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();

std::string element(const char* field, std::size_t i) {
  return std::string(field).append("[").append(std::to_string(i)).append("]");
}

std::string ids_of(std::int64_t vocab) {
  return std::string("0 to ").append(std::to_string(vocab - 1)).append(" (ids of the vocabulary)");
}

}  // namespace

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

std::string text_of(std::int64_t value) { return std::to_string(value); }

Error in_range(const char* field, double value, double least, double most, const char* range) {
  if (value >= least && value <= most) return {};
  return out_of_range(field, text_of(value), range);
}

Error in_range(const char* field, std::int64_t value, std::int64_t least, std::int64_t most,
               const char* range) {
  if (value >= least && value <= most) return {};
  return out_of_range(field, text_of(value), range);
}

Error positive(const char* field, double value) {
  if (value > 0 && std::isfinite(value)) return {};
  return out_of_range(field, text_of(value), "finite and > 0");
}

Error unit_without_zero(const char* field, double value) {
  if (value > 0 && value <= 1) return {};
  return out_of_range(field, text_of(value), "above 0, up to 1");
}

Error only(bool neutral, const char* field, const std::string& value, const std::string& allowed) {
  if (neutral) return {};
  Error error = out_of_range(field, value, allowed + " (fairdraw has no such feature)");
  error.code = ErrorCode::unsupported;
  return error;
}

Error only_unset(bool unset, const char* field) { return only(unset, field, "set", "unset"); }

Error check_ids(const char* field, const TokenIds& ids, std::int64_t vocab) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab) continue;
    return out_of_range(element(field, i), std::to_string(ids[i]), ids_of(vocab));
  }
  return {};
}

Error check_words(const char* field, const std::vector<TokenIds>& words, std::int64_t vocab) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = element(field, i);
    if (words[i].empty()) return out_of_range(name, "empty", "at least one id");
    if (Error e = check_ids(name.c_str(), words[i], vocab)) return e;
  }
  return {};
}

Error take_bias(const char* field, const TokenBiases& biases, std::int64_t vocab,
                RequestParameters& parameters) {
  for (std::size_t i = 0; i < biases.size(); ++i) {
    const auto& [id, bias] = biases[i];
    if (id < 0 || id >= vocab) {
      return out_of_range(element(field, i), std::to_string(id), ids_of(vocab));
    }
    const auto rounded = static_cast<float>(bias);
    const bool bans = rounded == -std::numeric_limits<float>::infinity();
    if (!bans && !(rounded >= -kLargestPenalty && rounded <= kLargestPenalty)) {
      return out_of_range(element(field, i), text_of(bias), "-2^64 to 2^64, or -inf");
    }
    parameters.logit_bias.emplace_back(id, rounded);
  }
  return {};
}

std::int32_t top_k_of(std::int64_t top_k, std::int64_t vocab) {
  return top_k <= 0 || top_k >= vocab ? 0 : static_cast<std::int32_t>(top_k);
}

std::int32_t length_of(std::optional<std::int64_t> length) {
  return static_cast<std::int32_t>(std::min(length.value_or(kNoMaxTokens), kMaxInt32));
}

std::optional<std::uint64_t> seed_of(std::optional<std::int64_t> seed) {
  if (!seed) return std::nullopt;
  return static_cast<std::uint64_t>(*seed);
}

void make_greedy(RequestParameters& parameters) {
  parameters.greedy = true;
  parameters.temperature = 0;
  parameters.top_k = 0;
  parameters.top_p = 1;
  parameters.min_p = 0;
}

Error check_lengths(const char* min_field, const char* max_field,
                    const RequestParameters& parameters) {
  if (parameters.min_tokens <= parameters.max_tokens) return {};
  const std::string range = std::string("0 to ").append(max_field);
  return out_of_range(
      min_field, std::to_string(parameters.min_tokens),
      std::string(range).append(" (").append(std::to_string(parameters.max_tokens)).append(")"));
}

Error finish(const RequestParameters& given, RequestParameters& result) {
  RequestParameters parameters = given;
  if (!parameters.greedy && parameters.temperature == 0) {
    return out_of_range("temperature", "0 as float32", "0, or 2^-126 to 2^64 as float32");
  }
  // What `sample` takes as greedy is called so.
  if (parameters.top_k == 1 || parameters.top_p == 0) make_greedy(parameters);
  const RowParameters row{parameters.temperature, parameters.top_k, parameters.top_p,
                          parameters.min_p};
  switch (check(row)) {
    case RowStatus::invalid_temperature:
      return out_of_range("temperature", text_of(static_cast<double>(parameters.temperature)),
                          "0, or 2^-126 to 2^64 as float32");
    case RowStatus::invalid_top_k:
      return out_of_range("top_k", std::to_string(parameters.top_k), ">= -1");
    case RowStatus::invalid_top_p:
      return out_of_range("top_p", text_of(static_cast<double>(parameters.top_p)), "0 to 1");
    case RowStatus::invalid_min_p:
      return out_of_range("min_p", text_of(static_cast<double>(parameters.min_p)), "0 to 1");
    default:
      break;
  }
  if (Error e = in_range("repetition_penalty", static_cast<double>(parameters.repetition_penalty),
                         static_cast<double>(kSmallestRepetitionPenalty),
                         static_cast<double>(kLargestPenalty), "2^-64 to 2^64")) {
    return e;
  }
  const auto most = static_cast<double>(kLargestPenalty);
  if (Error e = in_range("frequency_penalty", static_cast<double>(parameters.frequency_penalty),
                         -most, most, "-2^64 to 2^64")) {
    return e;
  }
  if (Error e = in_range("presence_penalty", static_cast<double>(parameters.presence_penalty),
                         -most, most, "-2^64 to 2^64")) {
    return e;
  }
  result = std::move(parameters);
  return {};
}

Error check_vocab(std::int64_t vocab) {
  if (vocab >= 1 && vocab <= kMaxVocab) return {};
  return out_of_range("vocab", std::to_string(vocab), "1 to " + std::to_string(kMaxVocab));
}

}  // namespace fairdraw::requests
