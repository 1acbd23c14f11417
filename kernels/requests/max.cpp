// MAX's SamplingParams: its defaults, and __post_init__ in its order.
#include <limits>

#include "request_checks.h"

namespace fairdraw {
namespace {

using namespace requests;

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

}  // namespace

Error from_max(const MaxRequest& request, std::int64_t vocab, RequestParameters& result) {
  if (Error e = check_vocab(vocab)) return e;
  RequestParameters parameters;
  const double min_p = request.min_p.value_or(0);
  const double repetition = request.repetition_penalty.value_or(1);
  const double top_p = request.top_p.value_or(1);
  const double temperature = request.temperature.value_or(1);
  const double frequency = request.frequency_penalty.value_or(0);
  const double presence = request.presence_penalty.value_or(0);
  const std::int64_t top_k = request.top_k.value_or(-1);
  const std::int64_t min_tokens = request.min_new_tokens.value_or(0);
  if (Error e = in_range("min_p", min_p, 0, 1, "0 to 1")) return e;
  if (Error e = positive("repetition_penalty", repetition)) return e;
  if (Error e = in_range("top_k", top_k, -1, kAny, ">= -1")) return e;
  if (Error e = in_range("top_p", top_p, 0, 1, "0 to 1")) return e;
  if (Error e = in_range("temperature", temperature, 0, 2, "0 to 2")) return e;
  if (Error e = only_unset(!request.thinking_temperature, "thinking_temperature")) return e;
  if (Error e = in_range("frequency_penalty", frequency, -2, 2, "-2 to 2")) return e;
  if (Error e = in_range("presence_penalty", presence, -2, 2, "-2 to 2")) return e;
  if (Error e = in_range("min_new_tokens", min_tokens, 0, kAny, ">= 0")) return e;
  if (request.max_new_tokens) {
    if (Error e = in_range("max_new_tokens", *request.max_new_tokens, 0, kAny, ">= 0")) return e;
  }
  if (Error e = check_ids("stop_token_ids", request.stop_token_ids, vocab)) return e;

  parameters.temperature = static_cast<float>(temperature);
  parameters.top_k = top_k_of(top_k, vocab);
  parameters.top_p = static_cast<float>(top_p);
  parameters.min_p = static_cast<float>(min_p);
  parameters.filter_order = FilterOrder::joint;
  if (temperature == 0 || top_k == 1 || top_p == 0) {
    make_greedy(parameters);
  } else if (min_p > 0 && top_p < 1) {
    parameters.differences.emplace_back(
        "MAX measures top_p on the whole mass; sample measures it on what min_p keeps");
  }
  parameters.seed = seed_of(request.seed);
  parameters.repetition_penalty = static_cast<float>(repetition);
  parameters.frequency_penalty = static_cast<float>(frequency);
  parameters.presence_penalty = static_cast<float>(presence);
  parameters.min_tokens = length_of(min_tokens);
  parameters.max_tokens = length_of(request.max_new_tokens);
  if (Error e = check_lengths("min_new_tokens", "max_new_tokens", parameters)) return e;
  parameters.ignore_eos = request.ignore_eos.value_or(false);
  parameters.stop_ids = request.stop_token_ids;
  return finish(parameters, result);
}

}  // namespace fairdraw
