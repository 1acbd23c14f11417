// The numbers that MAX's and SGLang's requests name alike, with the defaults that both have.
#pragma once

#include <cstdint>
#include <limits>

#include "serving/requests/request_checks.h"

namespace fairdraw::requests {

struct Numbers {
  double temperature, top_p, min_p;
  double repetition_penalty, frequency_penalty, presence_penalty;
  std::int64_t top_k, min_new_tokens;
};

template <class Request>
Numbers numbers_of(const Request& request) {
  return {request.temperature.value_or(1),
          request.top_p.value_or(1),
          request.min_p.value_or(0),
          request.repetition_penalty.value_or(1),
          request.frequency_penalty.value_or(0),
          request.presence_penalty.value_or(0),
          request.top_k.value_or(-1),
          request.min_new_tokens.value_or(0)};
}

/// Both engines' range of lengths, once the numbers before them are checked.
template <class Request>
Error check_new_tokens(const Request& request) {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  if (Error e = in_range("min_new_tokens", request.min_new_tokens.value_or(0), 0, kAny, ">= 0")) {
    return e;
  }
  if (!request.max_new_tokens) return {};
  return in_range("max_new_tokens", *request.max_new_tokens, 0, kAny, ">= 0");
}

/// Everything that both give on alike. What is greedy, and which filters, is left to the caller.
template <class Request>
Error take_numbers(const Numbers& numbers, const Request& request, std::int64_t vocab,
                   RequestParameters& parameters) {
  parameters.temperature = static_cast<float>(numbers.temperature);
  parameters.top_k = top_k_of(numbers.top_k, vocab);
  parameters.top_p = static_cast<float>(numbers.top_p);
  parameters.min_p = static_cast<float>(numbers.min_p);
  parameters.repetition_penalty = static_cast<float>(numbers.repetition_penalty);
  parameters.frequency_penalty = static_cast<float>(numbers.frequency_penalty);
  parameters.presence_penalty = static_cast<float>(numbers.presence_penalty);
  parameters.min_tokens = length_of(numbers.min_new_tokens);
  parameters.max_tokens = length_of(request.max_new_tokens);
  parameters.ignore_eos = request.ignore_eos.value_or(false);
  parameters.stop_ids = request.stop_token_ids;
  return check_lengths("min_new_tokens", "max_new_tokens", parameters);
}

}  // namespace fairdraw::requests
