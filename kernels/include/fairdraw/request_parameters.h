// Requests as engines give them, and what they mean here.
//
// One struct an engine, with the engine's own field names and defaults, and one function that turns
// it into RequestParameters or refuses it: with the engine's own limits, and an error that names
// the field, its value and the allowed range. What an engine has and fairdraw has not is refused
// too (ErrorCode::unsupported), never ignored. What an engine changes silently is listed in
// `adjustments`; where its distribution is another one than that of `sample` with these parameters,
// in `differences`. Both are sentences for a log.
//
// Every function takes the vocabulary's size: ids outside [0, vocab) are refused, and a top_k of at
// least `vocab` is off. Strings (stop, bad words) are the tokeniser's: give them as ids.
//
// Sources are named at each engine: its code as of 2026, read, not run. Numbers come as Python's
// (double, 64-bit integers) and become float32 and int32 here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fairdraw/parallel_sampling.h"
#include "fairdraw/stop_criteria.h"
#include "fairdraw/types.h"

namespace fairdraw {

using TokenIds = std::vector<std::int32_t>;
using TokenBiases = std::vector<std::pair<std::int32_t, double>>;

/// A request in fairdraw's terms. Greedy requests have temperature 0 and no filters.
struct RequestParameters {
  bool greedy = false;
  float temperature = 1;
  std::int32_t top_k = 0;  ///< 0: off
  float top_p = 1, min_p = 0;
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;

  std::optional<std::uint64_t> seed;  ///< absent: unseeded, draw a fresh one for the request
  ChildSeedRule child_seed_rule = ChildSeedRule::threefry;

  float repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  bool repetition_of_prompt = true;  ///< the repetition penalty counts the prompt's tokens
  bool counts_of_prompt = false;     ///< frequency and presence count them too
  std::int32_t penalty_window = -1;  ///< the last tokens that penalties look at; -1: all

  std::vector<std::pair<std::int32_t, float>> logit_bias;
  std::vector<TokenIds> bad_words;
  TokenIds allowed_ids;  ///< empty: all

  std::int32_t n = 1, best_of = 1;  ///< outputs returned, outputs generated (or beams)
  std::int32_t min_tokens = 0, max_tokens = kNoMaxTokens;
  bool ignore_eos = false;
  TokenIds stop_ids;
  std::vector<TokenIds> stop_sequences;
  std::optional<std::int32_t> logprobs;  ///< how many besides the sampled token's; -1: all

  std::int32_t beam_width = 0;  ///< 0: no beam search
  float length_penalty = 0;
  std::int32_t early_stopping = 1;

  std::vector<std::string> adjustments, differences;
};

/// vLLM (vllm/sampling_params.py, SamplingParams). 0 < temperature < 0.01 becomes 0.01 before it is
/// looked at (so the engine's 1e-5 for greedy leaves 0 alone); a greedy request drops top_k, top_p,
/// min_p, and has n = 1. top_k 0 and -1 are off; seed -1 is unseeded; n <= 16384
/// (VLLM_MAX_N_SEQUENCES); biases are clamped to [-100, 100]; child i has seed + i. Temperatures up
/// to 2, as in newer versions; older ones take any.
struct VllmRequest {
  std::int64_t n = 1;
  double presence_penalty = 0, frequency_penalty = 0, repetition_penalty = 1;
  double temperature = 1, top_p = 1, min_p = 0;
  std::int64_t top_k = 0;
  std::optional<std::int64_t> seed;
  TokenIds stop_token_ids;
  bool ignore_eos = false;
  std::optional<std::int64_t> max_tokens = 16;
  std::int64_t min_tokens = 0;
  std::optional<std::int64_t> logprobs;
  TokenBiases logit_bias;
  std::optional<TokenIds> allowed_token_ids;  ///< refused where it is empty
  std::vector<TokenIds> bad_words;            ///< as ids
};
Error from_vllm(const VllmRequest& request, std::int64_t vocab, RequestParameters& parameters);

/// SGLang (python/sglang/srt/sampling/sampling_params.py). 0 <= temperature < 1e-6 is greedy; top_k
/// -1 is off, 0 is refused; the repetition penalty counts the output alone. top_p is measured
/// before top_k (joint), with min_p after both of them in sequence: where min_p and top_p are on,
/// its nucleus is measured before min_p.
struct SglangRequest {
  std::optional<std::int64_t> max_new_tokens = 128;
  TokenIds stop_token_ids;
  std::optional<double> temperature, top_p, min_p;
  std::optional<std::int64_t> top_k;
  std::optional<double> frequency_penalty, presence_penalty, repetition_penalty;
  std::optional<std::int64_t> min_new_tokens, n;
  std::optional<bool> ignore_eos;
  std::optional<std::int64_t> sampling_seed;
  TokenBiases logit_bias;
};
Error from_sglang(const SglangRequest& request, std::int64_t vocab, RequestParameters& parameters);

/// TensorRT-LLM (tensorrt_llm/sampling_params.py; ranges of cpp/tensorrt_llm/executor/
/// samplingConfig.cpp; greedy as TorchSampler decides). Greedy where temperature or top_p is 0,
/// top_k is 1 or min_p is 1, or where temperature, top_k and top_p are all unset; n or best_of > 1
/// is then refused. Else what is unset or 0 is neutral. The seed's default is 0. Beam search: width
/// best_of, length_penalty 0, early_stopping 1 by default.
struct TensorRtLlmRequest {
  std::int64_t max_tokens = 32;
  TokenIds stop_token_ids;
  std::vector<TokenIds> stop_words, bad_words;  ///< as ids
  std::int64_t n = 1;
  std::optional<std::int64_t> best_of;
  bool use_beam_search = false;
  std::optional<std::int64_t> top_k;
  std::optional<double> top_p, top_p_min, top_p_decay;
  std::optional<std::int64_t> top_p_reset_ids, seed;
  std::optional<double> temperature, min_p;
  std::optional<std::int64_t> min_tokens;
  std::optional<double> beam_search_diversity_rate, repetition_penalty, presence_penalty,
      frequency_penalty, length_penalty;
  std::optional<std::int64_t> early_stopping, no_repeat_ngram_size, logprobs;
  bool ignore_eos = false;
};
Error from_tensorrt_llm(const TensorRtLlmRequest& request, std::int64_t vocab,
                        RequestParameters& parameters);

/// Hugging Face's early_stopping: False, True, "never".
enum class HuggingFaceEarlyStopping : std::uint32_t { no = 0, yes = 1, never = 2 };

/// Hugging Face transformers (generation/configuration_utils.py, logits_process.py, version 5).
/// Without do_sample and beams greedy, whatever the filters say. With do_sample: temperature > 0;
/// top_k 50 unless said otherwise, unset or 0 off; top_p below 1 and min_p apply; min_p comes after
/// top_p. num_beams > 1 is beam search, length_penalty 1 and early_stopping no by default; beam
/// sampling is refused. There is no seed of a request. Lengths with the prompt (max_length,
/// min_length) need `prompt_tokens`; without max_new_tokens, max_length is 20.
struct HuggingFaceRequest {
  std::optional<bool> do_sample;
  std::optional<double> temperature = 1, top_p = 1, min_p;
  std::optional<std::int64_t> top_k = 50;
  std::optional<double> repetition_penalty, typical_p, epsilon_cutoff, eta_cutoff;
  std::optional<std::int64_t> no_repeat_ngram_size;
  std::int64_t num_beams = 1, num_beam_groups = 1, num_return_sequences = 1;
  double length_penalty = 1, diversity_penalty = 0;
  HuggingFaceEarlyStopping early_stopping = HuggingFaceEarlyStopping::no;
  std::int64_t prompt_tokens = 0;
  std::optional<std::int64_t> max_new_tokens, min_new_tokens;
  std::int64_t max_length = 20, min_length = 0;
  TokenIds eos_token_id;  ///< one or several: stop ids here
  std::vector<TokenIds> bad_words_ids;
};
Error from_hugging_face(const HuggingFaceRequest& request, std::int64_t vocab,
                        RequestParameters& parameters);

/// MAX (max/python/max/pipelines/context/sampling_params.py). Temperature in [0, 2], 0 is top_k 1;
/// top_k 0 and -1 are off; unset fields have the class's defaults; unseeded without a seed (MAX
/// draws 32 bits). top_p is measured on the whole mass (joint), before min_p.
struct MaxRequest {
  std::optional<std::int64_t> top_k;
  std::optional<double> top_p, min_p, temperature, thinking_temperature;
  std::optional<double> frequency_penalty, presence_penalty, repetition_penalty;
  std::optional<std::int64_t> max_new_tokens, min_new_tokens;
  std::optional<bool> ignore_eos;
  TokenIds stop_token_ids;
  std::optional<std::int64_t> seed;
};
Error from_max(const MaxRequest& request, std::int64_t vocab, RequestParameters& parameters);

/// Samplers of llama.cpp that a chain may have.
enum class LlamaCppSampler : std::uint32_t { penalties, top_k, top_p, min_p, temperature };

/// llama.cpp (common/common.h, common_params_sampling; src/llama-sampler.cpp). Its samplers run in
/// the order of `samplers`, those that are not listed are off. temp <= 0 is greedy; top_k <= 0 is
/// off, and keeps exactly k; top_p >= 1 and min_p <= 0 are off. Penalties look at the last
/// penalty_last_n tokens of prompt and output: 0 turns them off, -1 takes all. The default order
/// has the temperature last: a min_p before it is min_p^(1/temp) after it, a top_p before it has
/// no such equivalent and is listed under `differences`. Seed 2^32 - 1 is unseeded.
struct LlamaCppRequest {
  std::uint32_t seed = 0xffffffffU;
  std::int32_t min_keep = 0, top_k = 40;
  float top_p = 0.95F, min_p = 0.05F;
  float xtc_probability = 0, typ_p = 1, temp = 0.8F, dynatemp_range = 0;
  std::int32_t penalty_last_n = 64;
  float penalty_repeat = 1, penalty_freq = 0, penalty_present = 0;
  float dry_multiplier = 0, top_n_sigma = -1;
  std::int32_t mirostat = 0;
  std::vector<LlamaCppSampler> samplers = {LlamaCppSampler::penalties, LlamaCppSampler::top_k,
                                           LlamaCppSampler::top_p, LlamaCppSampler::min_p,
                                           LlamaCppSampler::temperature};
  bool ignore_eos = false;
  TokenBiases logit_bias;
  std::int32_t n_predict = -1;  ///< -1: any length
};
Error from_llama_cpp(const LlamaCppRequest& request, std::int64_t vocab,
                     RequestParameters& parameters);

}  // namespace fairdraw
