// SGLang's SamplingParams: __post_init__ and verify, in their order.
#include <limits>

#include "request_checks.h"

namespace fairdraw {
namespace {

using namespace requests;

constexpr double kGreedyBelow = 1e-6;  // _SAMPLING_EPS
constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

}  // namespace

Error from_sglang(const SglangRequest& request, std::int64_t vocab, RequestParameters& result) {
  if (Error e = check_vocab(vocab)) return e;
  RequestParameters parameters;
  const double temperature = request.temperature.value_or(1);
  const double top_p = request.top_p.value_or(1);
  const double min_p = request.min_p.value_or(0);
  const double frequency = request.frequency_penalty.value_or(0);
  const double presence = request.presence_penalty.value_or(0);
  const double repetition = request.repetition_penalty.value_or(1);
  const bool greedy = temperature >= 0 && temperature < kGreedyBelow;
  const std::int64_t top_k = greedy ? 1 : request.top_k.value_or(-1);
  const std::int64_t n = request.n.value_or(1);
  const std::int64_t min_tokens = request.min_new_tokens.value_or(0);
  constexpr double kLargest = std::numeric_limits<double>::max();
  if (Error e = in_range("temperature", temperature, 0, kLargest, "finite and >= 0")) return e;
  if (Error e = unit_without_zero("top_p", top_p)) return e;
  if (Error e = in_range("min_p", min_p, 0, 1, "0 to 1")) return e;
  if (top_k != -1) {
    if (Error e = in_range("top_k", top_k, 1, kAny, "-1, or >= 1")) return e;
  }
  if (Error e = in_range("frequency_penalty", frequency, -2, 2, "-2 to 2")) return e;
  if (Error e = in_range("presence_penalty", presence, -2, 2, "-2 to 2")) return e;
  if (Error e = positive("repetition_penalty", repetition)) return e;
  if (Error e = in_range("repetition_penalty", repetition, 0, 2, "above 0, up to 2")) return e;
  if (Error e = in_range("min_new_tokens", min_tokens, 0, kAny, ">= 0")) return e;
  if (request.max_new_tokens) {
    if (Error e = in_range("max_new_tokens", *request.max_new_tokens, 0, kAny, ">= 0")) return e;
  }
  if (Error e = in_range("n", n, 1, kNoMaxTokens, "1 to 2^31 - 1")) return e;
  if (Error e = check_ids("stop_token_ids", request.stop_token_ids, vocab)) return e;
  if (Error e = take_bias("logit_bias", request.logit_bias, vocab, parameters)) return e;

  parameters.temperature = static_cast<float>(temperature);
  parameters.top_k = top_k_of(top_k, vocab);
  parameters.top_p = static_cast<float>(top_p);
  parameters.min_p = static_cast<float>(min_p);
  if (greedy || top_k == 1) {
    make_greedy(parameters);
  } else if (min_p > 0) {
    if (top_p < 1) {
      parameters.differences.emplace_back(
          "SGLang measures top_p before min_p; sample measures it on what min_p keeps");
    }
  } else {
    parameters.filter_order = FilterOrder::joint;
  }
  parameters.seed = seed_of(request.sampling_seed);
  parameters.repetition_penalty = static_cast<float>(repetition);
  parameters.repetition_of_prompt = false;
  parameters.frequency_penalty = static_cast<float>(frequency);
  parameters.presence_penalty = static_cast<float>(presence);
  parameters.n = parameters.best_of = static_cast<std::int32_t>(n);
  parameters.min_tokens = length_of(min_tokens);
  parameters.max_tokens = length_of(request.max_new_tokens);
  if (Error e = check_lengths("min_new_tokens", "max_new_tokens", parameters)) return e;
  parameters.ignore_eos = request.ignore_eos.value_or(false);
  parameters.stop_ids = request.stop_token_ids;
  return finish(parameters, result);
}

}  // namespace fairdraw
