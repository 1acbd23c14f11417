// MAX's SamplingParams: its defaults, and __post_init__ in its order.
#include <limits>

#include "serving/requests/optional_numbers.h"

namespace fairdraw {
namespace {

using namespace requests;

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

}  // namespace

Error from_max(const MaxRequest& request, std::int64_t vocab, RequestParameters& result) {
  if (Error e = check_vocab(vocab)) return e;
  RequestParameters parameters;
  const Numbers given = numbers_of(request);
  if (Error e = in_range("min_p", given.min_p, 0, 1, "0 to 1")) return e;
  if (Error e = positive("repetition_penalty", given.repetition_penalty)) return e;
  if (Error e = in_range("top_k", given.top_k, -1, kAny, ">= -1")) return e;
  if (Error e = in_range("top_p", given.top_p, 0, 1, "0 to 1")) return e;
  if (Error e = in_range("temperature", given.temperature, 0, 2, "0 to 2")) return e;
  if (Error e = only_unset(!request.thinking_temperature, "thinking_temperature")) return e;
  if (Error e = in_range("frequency_penalty", given.frequency_penalty, -2, 2, "-2 to 2")) {
    return e;
  }
  if (Error e = in_range("presence_penalty", given.presence_penalty, -2, 2, "-2 to 2")) return e;
  if (Error e = check_new_tokens(request)) return e;
  if (Error e = check_ids("stop_token_ids", request.stop_token_ids, vocab)) return e;

  if (Error e = take_numbers(given, request, vocab, parameters)) return e;
  parameters.seed = seed_of(request.seed);
  parameters.filter_order = FilterOrder::joint;
  if (given.temperature == 0 || given.top_k == 1 || given.top_p == 0) {
    make_greedy(parameters);
  } else if (given.min_p > 0 && given.top_p < 1) {
    parameters.differences.emplace_back(
        "MAX measures top_p on the whole mass; sample measures it on what min_p keeps");
  }
  return finish(parameters, result);
}

}  // namespace fairdraw
