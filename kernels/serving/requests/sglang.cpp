// SGLang's SamplingParams: __post_init__ and verify, in their order.
#include <limits>

#include "serving/requests/optional_numbers.h"

namespace fairdraw {
namespace {

using namespace requests;

constexpr double kGreedyBelow = 1e-6;  // _SAMPLING_EPS
constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

}  // namespace

Error from_sglang(const SglangRequest& request, std::int64_t vocab, RequestParameters& result) {
  if (Error e = check_vocab(vocab)) return e;
  RequestParameters parameters;
  Numbers given = numbers_of(request);
  const bool greedy = given.temperature >= 0 && given.temperature < kGreedyBelow;
  if (greedy) given.top_k = 1;
  const std::int64_t n = request.n.value_or(1);
  constexpr double kLargest = std::numeric_limits<double>::max();
  if (Error e = in_range("temperature", given.temperature, 0, kLargest, "finite and >= 0")) {
    return e;
  }
  if (Error e = unit_without_zero("top_p", given.top_p)) return e;
  if (Error e = in_range("min_p", given.min_p, 0, 1, "0 to 1")) return e;
  if (given.top_k != -1) {
    if (Error e = in_range("top_k", given.top_k, 1, kAny, "-1, or >= 1")) return e;
  }
  if (Error e = in_range("frequency_penalty", given.frequency_penalty, -2, 2, "-2 to 2")) {
    return e;
  }
  if (Error e = in_range("presence_penalty", given.presence_penalty, -2, 2, "-2 to 2")) return e;
  if (Error e = positive("repetition_penalty", given.repetition_penalty)) return e;
  if (Error e =
          in_range("repetition_penalty", given.repetition_penalty, 0, 2, "above 0, up to 2")) {
    return e;
  }
  if (Error e = check_new_tokens(request)) return e;
  if (Error e = in_range("n", n, 1, kNoMaxTokens, "1 to 2^31 - 1")) return e;
  if (Error e = check_ids("stop_token_ids", request.stop_token_ids, vocab)) return e;
  if (Error e = take_bias("logit_bias", request.logit_bias, vocab, parameters)) return e;

  if (Error e = take_numbers(given, request, vocab, parameters)) return e;
  if (greedy || given.top_k == 1) {
    make_greedy(parameters);
  } else if (given.min_p > 0) {
    if (given.top_p < 1) {
      parameters.differences.emplace_back(
          "SGLang measures top_p before min_p; sample measures it on what min_p keeps");
    }
  } else {
    parameters.filter_order = FilterOrder::joint;
  }
  parameters.seed = seed_of(request.sampling_seed);
  parameters.repetition_of_prompt = false;
  parameters.n = parameters.best_of = static_cast<std::int32_t>(n);
  return finish(parameters, result);
}

}  // namespace fairdraw
