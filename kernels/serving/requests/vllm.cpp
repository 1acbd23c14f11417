// vLLM's SamplingParams: __post_init__ and _verify_args, in their order.
#include <algorithm>
#include <limits>

#include "common/arguments.h"
#include "serving/requests/request_checks.h"

namespace fairdraw {
namespace {

using namespace requests;

constexpr double kSmallestTemperature = 1e-2;  // _MAX_TEMP
constexpr double kGreedyBelow = 1e-5;          // _SAMPLING_EPS
constexpr double kLargestBias = 100;
constexpr std::int64_t kMaxSequences = 16384;  // VLLM_MAX_N_SEQUENCES
constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

Error verify(const VllmRequest& request) {
  if (Error e = in_range("n", request.n, 1, kMaxSequences, "1 to 16384")) return e;
  if (Error e = in_range("presence_penalty", request.presence_penalty, -2, 2, "-2 to 2")) return e;
  if (Error e = in_range("frequency_penalty", request.frequency_penalty, -2, 2, "-2 to 2")) {
    return e;
  }
  if (Error e = positive("repetition_penalty", request.repetition_penalty)) return e;
  if (Error e = in_range("temperature", request.temperature, 0, 2, "0 to 2")) return e;
  if (Error e = unit_without_zero("top_p", request.top_p)) return e;
  if (Error e = in_range("top_k", request.top_k, -1, kAny, ">= -1")) return e;
  if (Error e = in_range("min_p", request.min_p, 0, 1, "0 to 1")) return e;
  if (request.max_tokens) {
    if (Error e = in_range("max_tokens", *request.max_tokens, 1, kAny, ">= 1")) return e;
  }
  if (Error e = in_range("min_tokens", request.min_tokens, 0, kAny, ">= 0")) return e;
  if (request.logprobs) {
    if (Error e = in_range("logprobs", *request.logprobs, -1, kAny, ">= -1")) return e;
  }
  return {};
}

Error take_lists(const VllmRequest& request, std::int64_t vocab, RequestParameters& parameters) {
  if (Error e = check_ids("stop_token_ids", request.stop_token_ids, vocab)) return e;
  if (Error e = check_words("bad_words", request.bad_words, vocab)) return e;
  if (request.allowed_token_ids) {
    if (request.allowed_token_ids->empty()) {
      return out_of_range("allowed_token_ids", "empty", "unset, or at least one id");
    }
    if (Error e = check_ids("allowed_token_ids", *request.allowed_token_ids, vocab)) return e;
    parameters.allowed_ids = *request.allowed_token_ids;
  }
  TokenBiases clamped = request.logit_bias;
  for (auto& [id, bias] : clamped) {
    if (bias >= -kLargestBias && bias <= kLargestBias) continue;
    if (bias != bias) continue;  // refused below
    parameters.adjustments.push_back("logit_bias " + text_of(bias) + " is clamped to [-100, 100]");
    bias = std::clamp(bias, -kLargestBias, kLargestBias);
  }
  if (Error e = take_bias("logit_bias", clamped, vocab, parameters)) return e;
  for (const std::int32_t id : request.stop_token_ids) {
    const auto& known = parameters.stop_ids;
    if (std::find(known.begin(), known.end(), id) == known.end()) parameters.stop_ids.push_back(id);
  }
  parameters.bad_words = request.bad_words;
  return {};
}

}  // namespace

Error from_vllm(const VllmRequest& given, std::int64_t vocab, RequestParameters& result) {
  if (Error e = check_vocab(vocab)) return e;
  VllmRequest request = given;
  RequestParameters parameters;
  if (request.temperature > 0 && request.temperature < kSmallestTemperature) {
    parameters.adjustments.push_back("temperature " + text_of(request.temperature) +
                                     " is raised to 0.01");
    request.temperature = kSmallestTemperature;
  }
  if (Error e = verify(request)) return e;
  if (Error e = take_lists(request, vocab, parameters)) return e;
  parameters.temperature = static_cast<float>(request.temperature);
  parameters.top_k = top_k_of(request.top_k, vocab);
  parameters.top_p = static_cast<float>(request.top_p);
  parameters.min_p = static_cast<float>(request.min_p);
  if (request.temperature < kGreedyBelow) {
    if (request.n > 1) return out_of_range("n", text_of(request.n), "1 where temperature is 0");
    make_greedy(parameters);
  }
  parameters.seed = request.seed == -1 ? std::nullopt : seed_of(request.seed);
  parameters.child_seed_rule = ChildSeedRule::seed_plus_index;
  parameters.repetition_penalty = static_cast<float>(request.repetition_penalty);
  parameters.frequency_penalty = static_cast<float>(request.frequency_penalty);
  parameters.presence_penalty = static_cast<float>(request.presence_penalty);
  parameters.n = parameters.best_of = static_cast<std::int32_t>(request.n);
  parameters.min_tokens = length_of(request.min_tokens);
  parameters.max_tokens = length_of(request.max_tokens);
  if (Error e = check_lengths("min_tokens", "max_tokens", parameters)) return e;
  parameters.ignore_eos = request.ignore_eos;
  if (request.logprobs) parameters.logprobs = length_of(request.logprobs);
  return finish(parameters, result);
}

}  // namespace fairdraw
