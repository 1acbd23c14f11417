// Hugging Face's GenerationConfig: what generate() makes of it.
#include <algorithm>
#include <limits>

#include "common/arguments.h"
#include "fairdraw/beam_search.h"
#include "serving/requests/request_checks.h"

namespace fairdraw {
namespace {

using namespace requests;

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
constexpr double kLargestFloat = static_cast<double>(std::numeric_limits<float>::max());

Error check_features(const HuggingFaceRequest& r) {
  const double typical = r.typical_p.value_or(1);
  const double epsilon = r.epsilon_cutoff.value_or(0);
  const double eta = r.eta_cutoff.value_or(0);
  const std::int64_t ngram = r.no_repeat_ngram_size.value_or(0);
  if (Error e = only(typical >= 1, "typical_p", text_of(typical), "unset or 1")) return e;
  if (Error e = only(epsilon == 0, "epsilon_cutoff", text_of(epsilon), "unset or 0")) return e;
  if (Error e = only(eta == 0, "eta_cutoff", text_of(eta), "unset or 0")) return e;
  if (Error e = only(ngram == 0, "no_repeat_ngram_size", text_of(ngram), "unset or 0")) return e;
  if (Error e = only(r.num_beam_groups == 1, "num_beam_groups", text_of(r.num_beam_groups), "1")) {
    return e;
  }
  return only(r.diversity_penalty == 0, "diversity_penalty", text_of(r.diversity_penalty), "0");
}

/// The processors that do_sample adds, and the ranges of their constructors.
Error take_filters(const HuggingFaceRequest& r, std::int64_t vocab, RequestParameters& parameters) {
  if (!r.do_sample.value_or(false)) {
    make_greedy(parameters);
    return {};
  }
  const double temperature = r.temperature.value_or(1);
  const std::int64_t top_k = r.top_k.value_or(0);
  const double top_p = r.top_p.value_or(1);
  const double min_p = r.min_p.value_or(0);
  if (Error e = positive("temperature", temperature)) return e;
  if (Error e = in_range("top_k", top_k, 0, kAny, "unset, 0, or >= 1")) return e;
  if (Error e = in_range("top_p", top_p, 0, 1, "0 to 1")) return e;
  if (Error e = in_range("min_p", min_p, 0, 1, "0 to 1")) return e;
  parameters.temperature = static_cast<float>(temperature);
  parameters.top_k = top_k_of(top_k, vocab);
  parameters.top_p = static_cast<float>(top_p);
  parameters.min_p = static_cast<float>(min_p);
  if (top_k == 1 || top_p == 0) {
    make_greedy(parameters);
  } else if (min_p > 0 && top_p < 1) {
    parameters.differences.emplace_back(
        "Hugging Face measures top_p before min_p; sample measures it on what min_p keeps");
  }
  return {};
}

Error take_beams(const HuggingFaceRequest& r, RequestParameters& parameters) {
  const bool samples = r.do_sample.value_or(false);
  if (Error e = in_range("num_beams", r.num_beams, 1, kMaxBeamWidth, "1 to 1024")) return e;
  if (Error e = in_range("num_return_sequences", r.num_return_sequences, 1, kNoMaxTokens,
                         "1 to 2^31 - 1")) {
    return e;
  }
  parameters.n = parameters.best_of = static_cast<std::int32_t>(r.num_return_sequences);
  if (r.num_beams == 1) {
    if (samples || r.num_return_sequences == 1) return {};
    return out_of_range("num_return_sequences", text_of(r.num_return_sequences),
                        "1 without do_sample and beams");
  }
  if (Error e = only(!samples, "do_sample", "true", "false where num_beams is not 1")) return e;
  if (r.num_return_sequences > r.num_beams) {
    return out_of_range("num_return_sequences", text_of(r.num_return_sequences),
                        "1 to num_beams (" + text_of(r.num_beams) + ")");
  }
  if (Error e = in_range("length_penalty", r.length_penalty, -kLargestFloat, kLargestFloat,
                         "finite as float32")) {
    return e;
  }
  parameters.best_of = parameters.beam_width = static_cast<std::int32_t>(r.num_beams);
  parameters.length_penalty = static_cast<float>(r.length_penalty);
  switch (r.early_stopping) {
    case HuggingFaceEarlyStopping::no:
      parameters.early_stopping = 0;
      break;
    case HuggingFaceEarlyStopping::yes:
      parameters.early_stopping = 1;
      break;
    case HuggingFaceEarlyStopping::never:
      parameters.early_stopping = 2;
      break;
    default:
      return out_of_range("early_stopping",
                          std::to_string(static_cast<std::uint32_t>(r.early_stopping)),
                          "0 (no), 1 (yes) or 2 (never)");
  }
  return {};
}

/// Lengths without the prompt; max_new_tokens and min_new_tokens come first where they are set.
Error take_lengths(const HuggingFaceRequest& r, RequestParameters& parameters) {
  if (Error e = in_range("prompt_tokens", r.prompt_tokens, 0, kNoMaxTokens, "0 to 2^31 - 1")) {
    return e;
  }
  if (Error e = in_range("min_length", r.min_length, 0, kAny, ">= 0")) return e;
  if (r.max_new_tokens) {
    if (Error e = in_range("max_new_tokens", *r.max_new_tokens, 1, kAny, ">= 1")) return e;
  } else if (r.max_length <= r.prompt_tokens) {
    return out_of_range("max_length", text_of(r.max_length),
                        "above prompt_tokens (" + text_of(r.prompt_tokens) + ")");
  }
  if (r.min_new_tokens) {
    if (Error e = in_range("min_new_tokens", *r.min_new_tokens, 0, kAny, ">= 0")) return e;
  }
  parameters.max_tokens = length_of(r.max_new_tokens.value_or(r.max_length - r.prompt_tokens));
  const std::int64_t rest = std::max<std::int64_t>(0, r.min_length - r.prompt_tokens);
  parameters.min_tokens = length_of(std::max(rest, r.min_new_tokens.value_or(0)));
  return check_lengths(r.min_new_tokens ? "min_new_tokens" : "min_length", "the largest length",
                       parameters);
}

}  // namespace

Error from_hugging_face(const HuggingFaceRequest& request, std::int64_t vocab,
                        RequestParameters& result) {
  if (Error e = check_vocab(vocab)) return e;
  RequestParameters parameters;
  const double repetition = request.repetition_penalty.value_or(1);
  if (Error e = check_features(request)) return e;
  if (Error e = take_filters(request, vocab, parameters)) return e;
  if (Error e = take_beams(request, parameters)) return e;
  if (Error e = take_lengths(request, parameters)) return e;
  if (Error e = positive("repetition_penalty", repetition)) return e;
  if (Error e = check_ids("eos_token_id", request.eos_token_id, vocab)) return e;
  if (Error e = check_words("bad_words_ids", request.bad_words_ids, vocab)) return e;
  parameters.repetition_penalty = static_cast<float>(repetition);
  parameters.stop_ids = request.eos_token_id;
  parameters.bad_words = request.bad_words_ids;
  return finish(parameters, result);
}

}  // namespace fairdraw
