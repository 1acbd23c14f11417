// TensorRT-LLM's SamplingParams: its own validation, the executor's ranges, TorchSampler's greedy.
#include <limits>

#include "common/arguments.h"
#include "fairdraw/beam_search.h"
#include "serving/requests/request_checks.h"

namespace fairdraw {
namespace {

using namespace requests;

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
constexpr double kLargest = std::numeric_limits<double>::max();
constexpr double kLargestFloat = static_cast<double>(std::numeric_limits<float>::max());

bool is_greedy(const TensorRtLlmRequest& r) {
  const bool unset = !r.temperature && !r.top_p && !r.top_k;
  return unset || r.temperature == 0.0 || r.top_p == 0.0 || r.top_k == 1 || r.min_p == 1.0;
}

Error check_filters(const TensorRtLlmRequest& r) {
  const double temperature = r.temperature.value_or(1);
  if (Error e = in_range("temperature", temperature, 0, kLargest, "finite and >= 0")) return e;
  if (Error e = in_range("top_k", r.top_k.value_or(0), 0, kAny, ">= 0")) return e;
  if (Error e = in_range("top_p", r.top_p.value_or(1), 0, 1, "0 to 1")) return e;
  if (Error e = in_range("min_p", r.min_p.value_or(0), 0, 1, "0 to 1")) return e;
  if (Error e = positive("repetition_penalty", r.repetition_penalty.value_or(1))) return e;
  const bool decays = r.top_p_decay.value_or(1) != 1;
  if (Error e = only(!decays, "top_p_decay", text_of(r.top_p_decay.value_or(1)), "unset or 1")) {
    return e;
  }
  if (Error e = only_unset(!r.top_p_min, "top_p_min")) return e;
  if (Error e = only_unset(!r.top_p_reset_ids, "top_p_reset_ids")) return e;
  return only_unset(!r.no_repeat_ngram_size, "no_repeat_ngram_size");
}

Error take_beams(const TensorRtLlmRequest& r, RequestParameters& parameters) {
  const double diversity = r.beam_search_diversity_rate.value_or(0);
  if (Error e = only(diversity == 0, "beam_search_diversity_rate", text_of(diversity), "0")) {
    return e;
  }
  if (!r.use_beam_search) return {};
  if (Error e = in_range("best_of", static_cast<std::int64_t>(parameters.best_of), 1, kMaxBeamWidth,
                         "1 to 1024 (beam widths)")) {
    return e;
  }
  const double penalty = r.length_penalty.value_or(0);
  if (Error e =
          in_range("length_penalty", penalty, 0, kLargestFloat, ">= 0 and finite as float32")) {
    return e;
  }
  const std::int64_t stopping = r.early_stopping.value_or(1);
  if (Error e = in_range("early_stopping", stopping, 0, kAny, ">= 0")) return e;
  parameters.beam_width = parameters.best_of;
  parameters.length_penalty = static_cast<float>(penalty);
  parameters.early_stopping = stopping >= 2 ? 2 : static_cast<std::int32_t>(stopping);
  return {};
}

Error take_outputs(const TensorRtLlmRequest& r, bool greedy, RequestParameters& parameters) {
  // `best_of or n`: 0 is unset.
  const std::int64_t best_of = r.best_of.value_or(0) == 0 ? r.n : *r.best_of;
  if (Error e = in_range("n", r.n, 1, kNoMaxTokens, "1 to 2^31 - 1")) return e;
  if (Error e = in_range("best_of", best_of, r.n, kNoMaxTokens, "n to 2^31 - 1")) return e;
  if (greedy && !r.use_beam_search && best_of > 1) {
    return out_of_range("best_of", text_of(best_of), "1 for a greedy request");
  }
  parameters.n = static_cast<std::int32_t>(r.n);
  parameters.best_of = static_cast<std::int32_t>(best_of);
  return take_beams(r, parameters);
}

}  // namespace

Error from_tensorrt_llm(const TensorRtLlmRequest& request, std::int64_t vocab,
                        RequestParameters& result) {
  if (Error e = check_vocab(vocab)) return e;
  RequestParameters parameters;
  const bool greedy = is_greedy(request);
  if (Error e = check_filters(request)) return e;
  if (Error e = take_outputs(request, greedy, parameters)) return e;
  if (Error e = in_range("max_tokens", request.max_tokens, 1, kAny, ">= 1")) return e;
  const std::int64_t min_tokens = request.min_tokens.value_or(0);
  if (Error e = in_range("min_tokens", min_tokens, 0, kAny, ">= 0")) return e;
  if (Error e = in_range("logprobs", request.logprobs.value_or(0), 0, kNoMaxTokens, ">= 0")) {
    return e;
  }
  if (Error e = check_ids("stop_token_ids", request.stop_token_ids, vocab)) return e;
  if (Error e = check_words("stop_words", request.stop_words, vocab)) return e;
  if (Error e = check_words("bad_words", request.bad_words, vocab)) return e;

  parameters.temperature = static_cast<float>(request.temperature.value_or(1));
  parameters.top_k = top_k_of(request.top_k.value_or(0), vocab);
  parameters.top_p = static_cast<float>(request.top_p.value_or(1));
  parameters.min_p = static_cast<float>(request.min_p.value_or(0));
  if (greedy) make_greedy(parameters);
  parameters.seed = seed_of(request.seed.value_or(0));
  if (!request.seed && !greedy) {
    parameters.adjustments.emplace_back("seed is unset: TensorRT-LLM's default is 0");
  }
  parameters.repetition_penalty = static_cast<float>(request.repetition_penalty.value_or(1));
  parameters.frequency_penalty = static_cast<float>(request.frequency_penalty.value_or(0));
  parameters.presence_penalty = static_cast<float>(request.presence_penalty.value_or(0));
  parameters.min_tokens = length_of(min_tokens);
  parameters.max_tokens = length_of(request.max_tokens);
  if (Error e = check_lengths("min_tokens", "max_tokens", parameters)) return e;
  parameters.ignore_eos = request.ignore_eos;
  parameters.stop_ids = request.stop_token_ids;
  parameters.stop_sequences = request.stop_words;
  parameters.bad_words = request.bad_words;
  if (request.logprobs) parameters.logprobs = length_of(request.logprobs);
  return finish(parameters, result);
}

}  // namespace fairdraw
