// llama.cpp's common_params_sampling: a chain of samplers, walked in its order.
#include <cmath>
#include <limits>
#include <string>

#include "common/arguments.h"
#include "serving/requests/request_checks.h"

namespace fairdraw {
namespace {

using namespace requests;

constexpr std::uint32_t kRandomSeed = 0xffffffffU;  // LLAMA_DEFAULT_SEED

double wide(float value) { return static_cast<double>(value); }

Error check_features(const LlamaCppRequest& r) {
  if (Error e = only(r.min_keep <= 1, "min_keep", std::to_string(r.min_keep), "0 or 1")) return e;
  if (Error e = only(!(r.xtc_probability > 0), "xtc_probability", text_of(wide(r.xtc_probability)),
                     "<= 0")) {
    return e;
  }
  if (Error e = only(r.typ_p >= 1, "typ_p", text_of(wide(r.typ_p)), ">= 1")) return e;
  if (Error e = only(!(r.dynatemp_range > 0), "dynatemp_range", text_of(wide(r.dynatemp_range)),
                     "<= 0")) {
    return e;
  }
  if (Error e =
          only(r.dry_multiplier == 0, "dry_multiplier", text_of(wide(r.dry_multiplier)), "0")) {
    return e;
  }
  if (Error e = only(r.top_n_sigma <= 0, "top_n_sigma", text_of(wide(r.top_n_sigma)), "<= 0")) {
    return e;
  }
  return only(r.mirostat == 0, "mirostat", std::to_string(r.mirostat), "0");
}

Error check_numbers(const LlamaCppRequest& r) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (Error e = in_range("temp", wide(r.temp), -infinity, 0x1p64, "at most 2^64")) return e;
  if (Error e = in_range("top_p", wide(r.top_p), 0, infinity, ">= 0")) return e;
  if (Error e = in_range("min_p", wide(r.min_p), -infinity, 1, "at most 1")) return e;
  if (Error e = in_range("penalty_last_n", static_cast<std::int64_t>(r.penalty_last_n), -1,
                         kNoMaxTokens, ">= -1")) {
    return e;
  }
  return in_range("n_predict", static_cast<std::int64_t>(r.n_predict), -1, kNoMaxTokens, ">= -1");
}

/// What the walk over the chain has come by.
struct Chain {
  bool penalties = false, top_k = false, top_p = false, min_p = false, temperature = false;
  bool seen[5] = {};
  RequestParameters& parameters;
};

void take_penalties(const LlamaCppRequest& r, Chain& chain) {
  if (r.penalty_last_n == 0) return;
  RequestParameters& p = chain.parameters;
  p.repetition_penalty = r.penalty_repeat;
  p.frequency_penalty = r.penalty_freq;
  p.presence_penalty = r.penalty_present;
  p.penalty_window = r.penalty_last_n;
  const bool neutral = r.penalty_repeat == 1 && r.penalty_freq == 0 && r.penalty_present == 0;
  if (!neutral && (chain.top_k || chain.top_p || chain.min_p || chain.temperature)) {
    p.differences.emplace_back(
        "penalties come after other samplers in the chain; sample applies them first");
  }
}

void take_top_p(const LlamaCppRequest& r, Chain& chain) {
  if (!(r.top_p < 1)) return;
  RequestParameters& p = chain.parameters;
  p.top_p = r.top_p;
  chain.top_p = true;
  const bool measures_other_logits = !chain.temperature && r.temp > 0 && r.temp != 1;
  for (const LlamaCppSampler later : r.samplers) {
    if (measures_other_logits && later == LlamaCppSampler::temperature) {
      p.differences.emplace_back(
          "top_p is measured before the temperature; sample measures it after that");
    }
  }
}

void take_min_p(const LlamaCppRequest& r, bool temperature_follows, Chain& chain) {
  if (!(r.min_p > 0)) return;
  RequestParameters& p = chain.parameters;
  p.min_p = r.min_p;
  chain.min_p = true;
  if (temperature_follows && r.temp > 0 && r.temp != 1) {
    p.min_p = static_cast<float>(std::pow(wide(r.min_p), 1 / wide(r.temp)));
    p.adjustments.push_back("min_p " + text_of(wide(r.min_p)) + " before the temperature is " +
                            text_of(wide(p.min_p)) + " after it");
  }
  if (chain.top_p) {
    p.differences.emplace_back(
        "top_p is measured before min_p; sample measures it on what min_p keeps");
  }
}

Error walk(const LlamaCppRequest& r, std::int64_t vocab, Chain& chain) {
  RequestParameters& p = chain.parameters;
  bool temperature_follows = false;
  for (const LlamaCppSampler s : r.samplers) {
    temperature_follows |= s == LlamaCppSampler::temperature;
  }
  for (std::size_t i = 0; i < r.samplers.size(); ++i) {
    const auto number = static_cast<std::uint32_t>(r.samplers[i]);
    const std::string field = std::string("samplers[").append(std::to_string(i)).append("]");
    if (number > 4) return out_of_range(field, std::to_string(number), "0 to 4");
    if (chain.seen[number]) {
      return out_of_range(field, std::to_string(number), "each sampler once");
    }
    chain.seen[number] = true;
    switch (r.samplers[i]) {
      case LlamaCppSampler::penalties:
        take_penalties(r, chain);
        break;
      case LlamaCppSampler::top_k:
        p.top_k = top_k_of(r.top_k, vocab);
        chain.top_k = p.top_k != 0;
        if (chain.top_p && chain.top_k) p.filter_order = FilterOrder::joint;
        break;
      case LlamaCppSampler::top_p:
        take_top_p(r, chain);
        break;
      case LlamaCppSampler::min_p:
        take_min_p(r, temperature_follows && !chain.temperature, chain);
        break;
      case LlamaCppSampler::temperature:
        chain.temperature = true;
        p.temperature = r.temp;
        break;
    }
  }
  return {};
}

}  // namespace

Error from_llama_cpp(const LlamaCppRequest& request, std::int64_t vocab,
                     RequestParameters& result) {
  if (Error e = check_vocab(vocab)) return e;
  if (Error e = check_features(request)) return e;
  if (Error e = check_numbers(request)) return e;
  RequestParameters parameters;
  parameters.counts_of_prompt = true;
  parameters.tie_rule = TieRule::lowest_id;
  Chain chain{.parameters = parameters};
  if (Error e = walk(request, vocab, chain)) return e;
  const bool coldest = chain.temperature && request.temp <= 0;
  if (coldest || parameters.top_k == 1 || parameters.top_p == 0) {
    make_greedy(parameters);
    // The largest logit is in every nucleus.
    std::erase_if(parameters.differences,
                  [](const std::string& text) { return text.starts_with("top_p"); });
  }
  if (Error e = take_bias("logit_bias", request.logit_bias, vocab, parameters)) return e;
  if (request.seed != kRandomSeed) parameters.seed = request.seed;
  parameters.ignore_eos = request.ignore_eos;
  if (request.n_predict >= 0) parameters.max_tokens = request.n_predict;
  return finish(parameters, result);
}

}  // namespace fairdraw
