// The tables of this test have one row for every documented difference between engines: the input,
// the result under the engine's profile, and the place in the engine's source or documentation. The
// probabilities are dyadic and the profiles have no float32 slack, so that equality at a boundary
// is decided.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "reference/real_oracle.h"
#include "reference/semantic_choices.h"

namespace fairdraw::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

Semantics exactly(const char* name) {
  Semantics semantics = *find_profile(name);
  semantics.relative_weight_error = semantics.relative_sum_error = 0;
  semantics.top_p_resolution = 0;
  semantics.rounds_scaled_logits = semantics.sequential_sums = false;
  return semantics;
}

// Returns one letter per token: in, out, or open (it is not defined which of the tied tokens stay);
// or the result of the whole row.
constexpr const char* kFails = "fails";
constexpr const char* kUndefined = "undefined";

std::string answer(const RealDistribution& distribution) {
  if (distribution.must_fail) return kFails;
  if (!distribution.defined) return kUndefined;
  std::string letters;
  for (const Membership membership : distribution.membership) {
    letters += membership == Membership::in ? 'i' : membership == Membership::out ? 'o' : '?';
  }
  return letters;
}

struct Row {
  const char* profile;
  const char* where;  // the engine's file, function or section, and what it does there
  std::vector<float> values;
  RowParameters parameters;
  const char* expected;
  std::int32_t kept = -1;  // size of the support if it is open which ties stay
};

const std::vector<float> kHalves = {0.5F, 0.25F, 0.125F, 0.125F};
// Three tokens tie for the third place, and the ids are not in the order of values.
const std::vector<float> kTies = {0.125F, 0.25F, 0.125F, 0.375F, 0.125F};
const std::vector<float> kTwoMaxima = {0.25F, 0.375F, 0.375F};

const Row kTopKRows[] = {
    {"vllm_torch", "apply_top_k_top_p_pytorch: x < threshold", kTies, {.top_k = 3}, "iiiii"},
    {"vllm_triton", "topk_topp_triton.py: the lowest index wins", kTies, {.top_k = 3}, "iioio"},
    {"flashinfer", "sampling.cuh: count(prob > pivot) < k", kTies, {.top_k = 3}, "iiiii"},
    {"flashinfer_joint", "sampling.cuh, joint kernel", kTies, {.top_k = 3}, "iiiii"},
    {"flashinfer_cake", "cake_sampling.py: the lower index", kTies, {.top_k = 3}, "iioio"},
    {"sglang", "flashinfer, joint", kTies, {.top_k = 3}, "iiiii"},
    {"sglang_torch", "sampler.py: rank >= k is dropped", kTies, {.top_k = 3}, "?i?i?", 3},
    {"trtllm_torch", "FlashInfer's rejection kernels", kTies, {.top_k = 3}, "iiiii"},
    {"trtllm_vanilla", "ops/vanilla.py: logits < thr", kTies, {.top_k = 3}, "iiiii"},
    {"trtllm_fused", "fusedSamplingKernels.cu: a threshold", kTies, {.top_k = 3}, "iiiii"},
    {"trtllm_legacy", "samplingTopKKernels.cu: k argmaxes", kTies, {.top_k = 3}, "?i?i?", 3},
    {"trtllm_documented", "no treatment of ties is guaranteed", kTies, {.top_k = 3}, "?i?i?"},
    {"max_gpu", "topk_topp_sampling_from_prob: count(>w) < k", kTies, {.top_k = 3}, "iiiii"},
    {"max_cpu", "_top_k_sampling: stable by index", kTies, {.top_k = 3}, "iioio"},
    {"llamacpp", "llama-sampler.cpp top_k: partial sort", kTies, {.top_k = 3}, "?i?i?", 3},
    {"hf", "TopKLogitsWarper: scores < kth", kTies, {.top_k = 3}, "iiiii"},
    {"rosellm", "top-k masks what is below the k-th", kTies, {.top_k = 3}, "iiiii"},
    {"sonicsampler", "encoding.py: the lower index first", kTies, {.top_k = 3}, "iioio"},
    // k = 1 with two maxima.
    {"fairdraw", "greedy, lowest id", kTwoMaxima, {.top_k = 1}, "oio"},
    {"vllm_torch", "no special case", kTwoMaxima, {.top_k = 1}, "oii"},
    {"flashinfer", "eight equal probabilities, k = 1: all", kTwoMaxima, {.top_k = 1}, "oii"},
    {"flashinfer_cake", "the lower index", kTwoMaxima, {.top_k = 1}, "oio"},
    {"trtllm_torch", "sampler_strategy.py: top_k == 1", kTwoMaxima, {.top_k = 1}, "o??", 1},
    {"max_gpu", "random among ties", kTwoMaxima, {.top_k = 1}, "oii"},
    {"max_cpu", "stable sort", kTwoMaxima, {.top_k = 1}, "oio"},
    {"llamacpp", "exactly k", kTwoMaxima, {.top_k = 1}, "o??", 1},
    {"vllm_triton", "the lowest index wins", kTwoMaxima, {.top_k = 1}, "oio"},
    {"sglang", "greedy is k = 1, drawn among ties", kTwoMaxima, {.top_k = 1}, "oii"},
    {"trtllm_fused", "a threshold on the weight", kTwoMaxima, {.top_k = 1}, "oii"},
    {"trtllm_legacy", "one argmax", kTwoMaxima, {.top_k = 1}, "o??", 1},
    {"hf", "scores < kth", kTwoMaxima, {.top_k = 1}, "oii"},
    {"sonicsampler", "the lower index first", kTwoMaxima, {.top_k = 1}, "oio"},
    // These rows have k = 0, a negative k, or a k above the vocabulary size.
    {"vllm_torch", "sampling_params.py: 0 is off", kHalves, {.top_k = 0}, "iiii"},
    {"flashinfer", "token 0, valid = false", kHalves, {.top_k = 0}, kUndefined},
    {"sglang", "sampling_params.py refuses it", kHalves, {.top_k = 0}, kFails},
    {"trtllm_torch", "0 is the vocabulary", kHalves, {.top_k = 0}, "iiii"},
    {"trtllm_legacy", "goes to the top-p kernel", kHalves, {.top_k = 0}, "iiii"},
    {"max_cpu", "nothing says", kHalves, {.top_k = 0}, kUndefined},
    {"llamacpp", "k <= 0 is a no-op", kHalves, {.top_k = 0}, "iiii"},
    {"hf", "k must be > 0", kHalves, {.top_k = 0}, kFails},
    {"rosellm", "k <= 0 is off", kHalves, {.top_k = 0}, "iiii"},
    {"rosellm", "k <= 0 is off", kHalves, {.top_k = -7}, "iiii"},
    {"vllm_triton", "sampling_params.py: 0 is off", kHalves, {.top_k = 0}, "iiii"},
    {"trtllm_fused", "section 5: off", kHalves, {.top_k = 0}, "iiii"},
    {"trtllm_fused", "section 5: off", kHalves, {.top_k = -1}, "iiii"},
    {"max_gpu", "k <= 0 is V", kHalves, {.top_k = 0}, "iiii"},
    {"max_gpu", "k == -1 is max_k, k <= 0 is V", kHalves, {.top_k = -1}, "iiii"},
    {"vllm_torch", "-1 is off", kHalves, {.top_k = -1}, "iiii"},
    {"vllm_torch", "below -1 is refused", kHalves, {.top_k = -2}, kFails},
    {"flashinfer", "read as unsigned", kHalves, {.top_k = -7}, "iiii"},
    {"sglang", "-1 is off", kHalves, {.top_k = -1}, "iiii"},
    {"trtllm_torch", "refused", kHalves, {.top_k = -1}, kFails},
    {"trtllm_legacy", "nothing says", kHalves, {.top_k = -1}, kUndefined},
    {"llamacpp", "k <= 0 is a no-op", kHalves, {.top_k = -7}, "iiii"},
    {"hf", "k must be > 0", kHalves, {.top_k = -1}, kFails},
    {"hf", "clipped to the vocabulary", kHalves, {.top_k = 5}, "iiii"},
    {"llamacpp", "k > n is n", kHalves, {.top_k = 5}, "iiii"},
    {"max_gpu", "k > V is V", kHalves, {.top_k = 5}, "iiii"},
    {"max_cpu", "clipped", kHalves, {.top_k = 5}, "iiii"},
    {"trtllm_torch", "k >= V is off", kHalves, {.top_k = 5}, "iiii"},
    {"flashinfer", "k >= V passes through", kHalves, {.top_k = 5}, "iiii"},
    {"llamacpp_backend", "ggml_top_k asserts k <= ne0", kHalves, {.top_k = 5}, kFails},
    {"rosellm", "torch.topk refuses", kHalves, {.top_k = 5}, kFails},
    {"sonicsampler", "k <= 0 asks for all", kHalves, {.top_k = 0}, "iiii"},
    {"sonicsampler", "k <= 0 asks for all", kHalves, {.top_k = -7}, "iiii"},
    {"sonicsampler", "off up to 128", kHalves, {.top_k = 128}, "iiii"},
    {"sonicsampler", "from_params refuses k > 128", kHalves, {.top_k = 129}, kFails},
    {"trtllm_legacy", "off up to 1024", kHalves, {.top_k = 1024}, "iiii"},
    {"trtllm_legacy", "k <= 1024 is checked", kHalves, {.top_k = 1025}, kFails},
};

const Row kTopPRows[] = {
    // The mass in front of the second token is exactly p.
    {"vllm_torch", "removes cumsum <= 1 - p", kHalves, {.top_p = 0.5F}, "iooo"},
    {"vllm_triton", "smallest set >= p", kHalves, {.top_p = 0.5F}, "iooo"},
    {"flashinfer", "sum(prob > pivot) < p", kHalves, {.top_p = 0.5F}, "iooo"},
    {"sglang", "flashinfer", kHalves, {.top_p = 0.5F}, "iooo"},
    {"sglang_torch", "drops mass_before > p", kHalves, {.top_p = 0.5F}, "iioo"},
    {"trtllm_torch", "mass(>) < p", kHalves, {.top_p = 0.5F}, "iooo"},
    {"trtllm_vanilla", "first index with cumsum >= p", kHalves, {.top_p = 0.5F}, "iooo"},
    {"trtllm_documented", "a probability greater than top_p", kHalves, {.top_p = 0.5F}, "iioo"},
    {"trtllm_fused", "mass strictly above <= p Z", kHalves, {.top_p = 0.5F}, "iioo"},
    {"trtllm_legacy", "u p sum ends in the first token", kHalves, {.top_p = 0.5F}, "iooo"},
    {"max_gpu", "mass(>w) <= p Z", kHalves, {.top_p = 0.5F}, "iioo"},
    {"max_cpu", "_adjust_top_p: cum >= p sum", kHalves, {.top_p = 0.5F}, "iooo"},
    {"llamacpp", "until cum >= p", kHalves, {.top_p = 0.5F}, "iooo"},
    {"hf", "ascending cumsum <= 1 - p", kHalves, {.top_p = 0.5F}, "iooo"},
    {"rosellm", "inclusive cumsum > p goes", kHalves, {.top_p = 0.625F}, "iooo"},
    {"hf", "the crossing token stays", kHalves, {.top_p = 0.625F}, "iioo"},
    {"sonicsampler", "ladder <= p: it goes", kHalves, {.top_p = 0.625F}, "iooo"},
    {"sonicsampler", "ladder <= p: a sum of p stays", kHalves, {.top_p = 0.75F}, "iioo"},
    {"sonicsampler", "the first stays", kHalves, {.top_p = 0.25F}, "iooo"},
    // Two of the three tied tokens fill the nucleus: 3/8 + 1/4 + 1/8 < 13/16.
    {"flashinfer", "all ties stay", kTies, {.top_p = 0.8125F}, "iiiii"},
    {"flashinfer_cake", "sorted by index too", kTies, {.top_k = 4, .top_p = 0.8125F}, "iioio"},
    {"trtllm_torch", "all ties stay", kTies, {.top_p = 0.8125F}, "iiiii"},
    {"trtllm_fused", "all ties stay", kTies, {.top_p = 0.8125F}, "iiiii"},
    {"max_gpu", "all ties stay", kTies, {.top_p = 0.8125F}, "iiiii"},
    {"max_cpu", "stable sort", kTies, {.top_p = 0.8125F}, "iiiio", 4},
    {"sonicsampler", "each by itself, 3/4 of 13/16", kTies, {.top_p = 0.8125F}, "iioio", 3},
    {"vllm_torch", "unstable sort", kTies, {.top_p = 0.8125F}, "?i?i?", 4},
    {"vllm_triton", "duplicates are trimmed", kTies, {.top_p = 0.8125F}, "?i?i?", 4},
    {"sglang_torch", "unstable sort", kTies, {.top_p = 0.8125F}, "?i?i?", 4},
    {"trtllm_vanilla", "torch.sort", kTies, {.top_p = 0.8125F}, "?i?i?", 4},
    {"trtllm_documented", "no treatment of ties is guaranteed", kTies, {.top_p = 0.8125F}, "?i?i?"},
    {"llamacpp", "std::sort", kTies, {.top_p = 0.8125F}, "?i?i?", 4},
    {"hf", "decided by the sort", kTies, {.top_p = 0.8125F}, "?i?i?", 4},
    // The second token has 2/3 of the mass in front of it after top_k = 2, and 1/2 in the whole
    // row; p = 19/32 is between the two.
    {"vllm_torch", "top_k_first", kHalves, {.top_k = 2, .top_p = 0.59375F}, "iooo"},
    {"flashinfer", "top_k_first", kHalves, {.top_k = 2, .top_p = 0.59375F}, "iooo"},
    {"flashinfer_joint", "joint", kHalves, {.top_k = 2, .top_p = 0.59375F}, "iioo"},
    {"sglang", "joint without min_p", kHalves, {.top_k = 2, .top_p = 0.59375F}, "iioo"},
    {"sglang",
     "top_k_renorm, top_p_renorm, min_p_sampling",
     kHalves,
     {.top_k = 2, .top_p = 0.59375F, .min_p = 0.0625F},
     "iooo"},
    {"sglang_torch", "cumsum of the whole row", kHalves, {.top_k = 2, .top_p = 0.59375F}, "iioo"},
    {"trtllm_fused", "surviving mass", kHalves, {.top_k = 2, .top_p = 0.59375F}, "iooo"},
    {"max_gpu", "Z of the unmasked row", kHalves, {.top_k = 2, .top_p = 0.59375F}, "iioo"},
    {"sonicsampler", "what top-k left", kHalves, {.top_k = 2, .top_p = 0.6875F}, "iooo"},
    {"max_cpu", "mass of top-k", kHalves, {.top_k = 2, .top_p = 0.59375F}, "iooo"},
    {"llamacpp", "softmax of the survivors", kHalves, {.top_k = 2, .top_p = 0.59375F}, "iooo"},
    // p = 0, 1, and above 1.
    {"vllm_torch", "keeps the last of the sort", kTwoMaxima, {.top_p = 0}, "o??", 1},
    {"flashinfer", "token 0, or argmax, by function", kTwoMaxima, {.top_p = 0}, kUndefined},
    {"sglang", "requests need p > 0", kTwoMaxima, {.top_p = 0}, kFails},
    {"trtllm_torch", "greedy", kTwoMaxima, {.top_p = 0}, "o??", 1},
    {"trtllm_fused", "argmax and its ties", kTwoMaxima, {.top_p = 0}, "oii"},
    {"trtllm_legacy", "k = 1", kTwoMaxima, {.top_p = 0}, "o??", 1},
    {"trtllm_legacy", "p := 1 with k", kHalves, {.top_k = 3, .top_p = 0}, "ii??", 3},
    {"max_gpu", "<= so that p = 0 accepts argmax", kTwoMaxima, {.top_p = 0}, "oii"},
    {"max_cpu", "one token", kTwoMaxima, {.top_p = 0}, "oio"},
    {"llamacpp", "one token", kTwoMaxima, {.top_p = 0}, "o??", 1},
    {"hf", "min_tokens_to_keep", kTwoMaxima, {.top_p = 0}, "o??", 1},
    {"rosellm", "p <= 0 is off", kTwoMaxima, {.top_p = 0}, "iii"},
    {"sonicsampler", "0 < p < 1 is read", kTwoMaxima, {.top_p = 0}, "iii"},
    {"sglang_torch", "requests need p > 0", kTwoMaxima, {.top_p = 0}, kFails},
    {"trtllm_vanilla", "greedy before it", kTwoMaxima, {.top_p = 0}, "o??", 1},
    {"llamacpp", "p >= 1 is off", kHalves, {.top_p = 1.5F}, "iiii"},
    {"trtllm_fused", "p >= 1 is off", kHalves, {.top_p = 1.5F}, "iiii"},
    {"trtllm_torch", "p >= 1 is off", kHalves, {.top_p = 1.5F}, "iiii"},
    {"rosellm", "p >= 1 is off", kHalves, {.top_p = 1.5F}, "iiii"},
    {"sonicsampler", "0 < p < 1 is read", kHalves, {.top_p = 1.5F}, "iiii"},
    {"hf", "p in [0, 1]", kHalves, {.top_p = 1.5F}, kFails},
    // All logits of these rows are equal.
    {"vllm_triton",
     "pivot not below the maximum",
     {0.25F, 0.25F, 0.25F, 0.25F},
     {.top_k = 2},
     "ii??"},
    {"vllm_torch", "ties stay", {0.25F, 0.25F, 0.25F, 0.25F}, {.top_k = 2}, "iiii"},
};

const Row kMinPRows[] = {
    // The filter min_p keeps two tokens with 3/4 of the mass. The first token has 2/3 of the mass
    // that min_p keeps, and 1/2 of the whole mass.
    {"vllm_torch", "before top-k and top-p", kHalves, {.top_p = 0.59375F, .min_p = 0.375F}, "iooo"},
    {"trtllm_torch", "min_p first", kHalves, {.top_p = 0.59375F, .min_p = 0.375F}, "iooo"},
    {"trtllm_fused", "min_p first", kHalves, {.top_p = 0.59375F, .min_p = 0.375F}, "iooo"},
    {"max_gpu", "the budget stays p Z", kHalves, {.top_p = 0.59375F, .min_p = 0.375F}, "iioo"},
    {"llamacpp", "after top_p", kHalves, {.top_p = 0.59375F, .min_p = 0.375F}, "iioo"},
    {"hf", "after top_p", kHalves, {.top_p = 0.59375F, .min_p = 0.375F}, "iioo"},
    {"sonicsampler", "last", kHalves, {.top_p = 0.8125F, .min_p = 0.375F}, "iioo"},
    {"flashinfer", "chained last", kHalves, {.top_p = 0.59375F, .min_p = 0.375F}, "iioo"},
    {"sglang_torch", "last", kHalves, {.top_p = 0.59375F, .min_p = 0.375F}, "iioo"},
    {"trtllm_legacy", "has none", kHalves, {.min_p = 0.375F}, "iiii"},
    {"max_cpu", "no argument on the CPU", kHalves, {.min_p = 0.375F}, "iiii"},
    {"rosellm", "has none", kHalves, {.min_p = 0.375F}, "iiii"},
    // These rows have a token exactly at the threshold of min_p.
    {"hf", "probs < min_p max goes", kHalves, {.min_p = 0.5F}, "iioo"},
    {"llamacpp", "logit >= max + ln p", kHalves, {.min_p = 0.5F}, "iioo"},
    {"sonicsampler", "logit >= max + ln p", kHalves, {.min_p = 0.5F}, "iioo"},
    {"llamacpp_backend", "step(x > 0)", kHalves, {.min_p = 0.5F}, "iooo"},
    {"llamacpp", "the ties of the maximum", kTwoMaxima, {.min_p = 1}, "oii"},
    {"llamacpp_backend", "drops even the maximum", kTwoMaxima, {.min_p = 1}, kUndefined},
    {"trtllm_torch", "min_p == 1 is greedy", kTwoMaxima, {.min_p = 1}, "o??", 1},
    {"vllm_torch", "p < min_p max goes", kHalves, {.min_p = 0.5F}, "iioo"},
    {"trtllm_torch", "p >= min_p p_max stays", kHalves, {.min_p = 0.5F}, "iioo"},
    {"max_gpu", "w < min_p goes", kHalves, {.min_p = 0.5F}, "iioo"},
    {"max_gpu", "the ties of the maximum", kTwoMaxima, {.min_p = 1}, "oii"},
    {"hf", "the ties of the maximum", kTwoMaxima, {.min_p = 1}, "oii"},
};

// These logits have two maxima, and the last logit is a millionth of a nat below them.
const std::vector<float> kMaxima = {-1, 0, 0, -1e-6F};
const std::vector<float> kOctaves = {0, -1, -2, -3};

// With p = 1, FlashInfer's rule may drop tokens that underflow, so the token with probability 9e-6
// is open.
const Row kLogitRows[] = {
    {"vllm_torch", "argmax", kMaxima, {.temperature = 0}, "o??o", 1},
    {"sglang", "k = 1 or argmax", kMaxima, {.temperature = 0, .top_k = 4}, "o??o", 1},
    {"flashinfer", "inverse temperature 0", kMaxima, {.temperature = 0, .top_k = 4}, "iiii"},
    {"trtllm_torch", "temperature == 0", kMaxima, {.temperature = 0}, "o??o", 1},
    {"max_gpu", "T is at least 1e-6", kMaxima, {.temperature = 0}, "iiii"},
    {"max_cpu", "T is at least 1e-6", kMaxima, {.temperature = 0, .top_k = 3}, "oiii"},
    {"llamacpp", "T <= 0 keeps a maximum", kMaxima, {.temperature = 0}, "o??o", 1},
    {"llamacpp", "T <= 0 keeps a maximum", kMaxima, {.temperature = -1}, "o??o", 1},
    {"hf", "must be > 0", kMaxima, {.temperature = 0, .top_k = 4}, kFails},
    {"rosellm", "T <= 0", kMaxima, {.temperature = -1}, "o??o", 1},
    {"rosellm", "T <= 0", kMaxima, {.temperature = 0}, "o??o", 1},
    {"sonicsampler", "the first maximum", kMaxima, {.temperature = 0}, "oioo"},
    {"vllm_triton", "argmax", kMaxima, {.temperature = 0}, "o??o", 1},
    {"sglang_torch", "k = 1 or argmax", kMaxima, {.temperature = 0, .top_k = 4}, "o??o", 1},
    {"trtllm_vanilla", "greedy before it", kMaxima, {.temperature = 0}, "o??o", 1},
    {"trtllm_fused", "a sentinel, argmax", kMaxima, {.temperature = 0}, "o??o", 1},
    {"trtllm_legacy", "k = 1", kMaxima, {.temperature = 0}, "o??o", 1},
    {"vllm_torch", "non-finite and negative are refused", kMaxima, {.temperature = -1}, kFails},
    {"vllm_torch", "_SAMPLING_EPS = 1e-5", kMaxima, {.temperature = 9e-6F}, "o??o", 1},
    {"sglang", "_SAMPLING_EPS = 1e-6", kMaxima, {.temperature = 9e-6F, .top_k = 4}, "?iii"},
    {"sglang", "_SAMPLING_EPS = 1e-6", kMaxima, {.temperature = 9e-7F, .top_k = 4}, "o??o", 1},
    // At T = 1 the first two logits have .87 of the mass; at T = 1/2 the first logit alone has .86.
    {"hf", "temperature first", kOctaves, {.temperature = 0.5F, .top_k = 4, .top_p = 0.8F}, "iooo"},
    {"llamacpp",
     "temperature last (issue 4091)",
     kOctaves,
     {.temperature = 0.5F, .top_p = 0.8F},
     "iioo"},
    {"vllm_torch", "NaN are counted at best", {0, kNan, 1}, {}, kUndefined},
    {"hf", "torch.multinomial refuses", {0, kNan, 1}, {.top_k = 3}, kFails},
    {"trtllm_torch", "torch._assert_async", {0, kNan, 1}, {}, kFails},
    {"trtllm_legacy", "vocabSize - 1 (issue 2217)", {0, kNan, 1, 0}, {}, "oooi"},
    {"max_gpu", "token 0, or ignored", {0, kNan, 1}, {}, kUndefined},
    {"max_cpu", "an unordered sort", {0, kNan, 1}, {.top_k = 3}, kUndefined},
    {"trtllm_vanilla", "torch.multinomial refuses", {0, kNan, 1}, {}, kFails},
    {"trtllm_fused", "argmax, or undefined", {0, kNan, 1}, {}, kUndefined},
    {"sglang_torch", "NaN are sanitised", {0, kNan, 1}, {.top_k = 3}, kUndefined},
    {"rosellm", "nothing looks for them", {0, kNan, 1}, {}, kUndefined},
    {"sonicsampler", "nothing looks for them", {0, kNan, 1}, {}, kUndefined},
    {"llamacpp", "last id, or kept", {0, kNan, 1}, {}, kUndefined},
    {"flashinfer", "+inf skips its tile", {0, kInfinity, 1}, {.top_k = 3}, kUndefined},
    {"vllm_torch", "an empty row is not detected", {-kInfinity, -kInfinity}, {}, kUndefined},
};

void expect_row(const Row& row, const RealDistribution& distribution) {
  SCOPED_TRACE(testing::Message() << row.profile << ", " << row.where);
  EXPECT_EQ(answer(distribution), row.expected);
  if (row.kept < 0) return;
  EXPECT_EQ(distribution.support_low, row.kept);
  EXPECT_EQ(distribution.support_high, row.kept);
}

TEST(Profiles, HaveTheirNames) {
  EXPECT_EQ(std::vector<std::string>(profile_names().begin(), profile_names().end()),
            (std::vector<std::string>{"fairdraw",
                                      "vllm_torch",
                                      "vllm_triton",
                                      "flashinfer",
                                      "flashinfer_fast",
                                      "flashinfer_joint",
                                      "flashinfer_cake",
                                      "sglang",
                                      "sglang_torch",
                                      "trtllm_torch",
                                      "trtllm_vanilla",
                                      "trtllm_fused",
                                      "trtllm_legacy",
                                      "trtllm_documented",
                                      "max_gpu",
                                      "max_cpu",
                                      "llamacpp",
                                      "llamacpp_backend",
                                      "hf",
                                      "rosellm",
                                      "sonicsampler"}));
  for (const std::string& name : profile_names()) {
    ASSERT_NE(find_profile(name), nullptr);
    EXPECT_EQ(find_profile(name)->name, name);
  }
  EXPECT_EQ(find_profile("fairdraw "), nullptr);
  EXPECT_EQ(find_profile(""), nullptr);
}

TEST(EngineProfiles, KeepWhatTheirTopKKeeps) {
  for (const Row& row : kTopKRows) {
    expect_row(row, real_oracle_from_probs(row.values, row.parameters, exactly(row.profile)));
  }
}

// Returns the profile without rosellm's clamp, which would make every token drawable, because this
// table is about filters.
Semantics filters_of(const char* profile) {
  Semantics semantics = exactly(profile);
  semantics.masked_probability_floor = 0;
  return semantics;
}

// Replaces a top_k that the row does not set by a value that turns top_k off; only hf and sglang
// need this explicit value.
RowParameters with_top_k(RowParameters parameters, std::size_t vocab) {
  if (parameters.top_k == 0) parameters.top_k = static_cast<std::int32_t>(vocab);
  return parameters;
}

TEST(EngineProfiles, KeepWhatTheirTopPKeeps) {
  for (const Row& row : kTopPRows) {
    RowParameters parameters = with_top_k(row.parameters, row.values.size());
    // A positive k changes the meaning of p = 0 in this profile.
    if (std::string(row.profile) == "trtllm_legacy") parameters.top_k = row.parameters.top_k;
    expect_row(row, real_oracle_from_probs(row.values, parameters, filters_of(row.profile)));
  }
}

TEST(EngineProfiles, KeepWhatTheirMinPKeeps) {
  for (const Row& row : kMinPRows) {
    expect_row(row,
               real_oracle_from_probs(row.values, with_top_k(row.parameters, row.values.size()),
                                      filters_of(row.profile)));
  }
}

TEST(EngineProfiles, ReadTemperaturesAndBadRowsTheirWay) {
  const WeightBound none = {
      .constant = 0, .per_octave = 0, .truncation = false, .min_p_distance = 0};
  for (const Row& row : kLogitRows) {
    expect_row(row, real_oracle(row.values, {}, row.parameters, filters_of(row.profile), none));
  }
}

TEST(EngineProfiles, FlashInferKeepsExactlyKOnItsFastPath) {
  // Four tokens tie for the second place: k tokens stay in all for k <= 256 and V >= 65536,
  // otherwise all tied tokens stay.
  std::vector<float> probs(65536, 0);
  probs[7] = 0.5F;
  for (const std::size_t id : {3U, 100U, 65535U, 40000U}) probs[id] = 0.125F;
  const Semantics fast = exactly("flashinfer_fast");
  const RealDistribution small_k = real_oracle_from_probs(probs, {.top_k = 3}, fast);
  EXPECT_EQ(small_k.support_low, 3);
  EXPECT_EQ(small_k.support_high, 3);
  EXPECT_EQ(small_k.membership[65535], Membership::ambiguous);
  const RealDistribution slow = real_oracle_from_probs(probs, {.top_k = 3}, exactly("flashinfer"));
  EXPECT_EQ(slow.support_low, 5);
  EXPECT_EQ(slow.membership[65535], Membership::in);
  probs.pop_back();  // with one token fewer, FlashInfer takes the slow path
  probs[1] = 0.125F;
  EXPECT_EQ(real_oracle_from_probs(probs, {.top_k = 3}, fast).support_low, 5);
  std::vector<float> flat(65536, 0x1p-16F);
  EXPECT_EQ(real_oracle_from_probs(flat, {.top_k = 256}, fast).support_low, 256);
  EXPECT_EQ(real_oracle_from_probs(flat, {.top_k = 257}, fast).support_low, 65536);
}

TEST(EngineProfiles, TrtllmsDocumentationLeavesTheNumberOfTiesOpen) {
  // The support has the mass 3/8 + 1/4 and one of three tied tokens of 1/8 for k = 3, or two of
  // them for p = 13/16, or all three.
  const Semantics documented = exactly("trtllm_documented");
  const RealDistribution top_k = real_oracle_from_probs(kTies, {.top_k = 3}, documented);
  EXPECT_EQ(top_k.support_low, 3);
  EXPECT_EQ(top_k.support_high, 5);
  const RealDistribution top_p = real_oracle_from_probs(kTies, {.top_p = 0.8125F}, documented);
  EXPECT_EQ(top_p.support_low, 4);
  EXPECT_EQ(top_p.support_high, 5);
  // The filter top_k keeps 3, 4 or 5 tokens with 6/8, 7/8 or all of the mass. 13/16 of 6/8 is below
  // the 5/8 of two tokens; 13/16 of the whole mass is above the 6/8 of three tokens.
  const RealDistribution both =
      real_oracle_from_probs(kTies, {.top_k = 3, .top_p = 0.8125F}, documented);
  EXPECT_EQ(answer(both), "?i?i?");
  EXPECT_EQ(both.support_low, 2);
  EXPECT_EQ(both.support_high, 5);
  // If no tokens tie, the profile keeps as many tokens as the definition says.
  EXPECT_EQ(real_oracle_from_probs(kHalves, {.top_k = 2}, documented).support_high, 2);
}

TEST(EngineProfiles, MaxOnTheCpuCapsMinusOneAt255) {
  const std::vector<float> flat(512, 0x1p-9F);
  const RealDistribution distribution =
      real_oracle_from_probs(flat, {.top_k = -1}, exactly("max_cpu"));
  EXPECT_EQ(distribution.support_low, 255);
  EXPECT_EQ(distribution.membership[254], Membership::in);
  EXPECT_EQ(distribution.membership[255], Membership::out);
  EXPECT_EQ(real_oracle_from_probs(flat, {.top_k = -1}, exactly("max_gpu")).support_low, 512);
}

TEST(EngineProfiles, LegacyTrtllmTruncatesTheCrossingToken) {
  // The documentation has these rows as examples: {.5, .5} with p = .6, and {.4, .3, .2, .1} with p
  // = .8.
  const Semantics legacy = exactly("trtllm_legacy");
  const std::vector<float> equal = {0.5F, 0.5F};
  const RealDistribution two = real_oracle_from_probs(equal, {.top_p = 0.6F}, legacy);
  const double p = static_cast<double>(0.6F);  // one of the two tokens gets the part of p above 1/2
  EXPECT_DOUBLE_EQ(two.probability[0], 0.5 / p);
  EXPECT_DOUBLE_EQ(two.probability[1], (p - 0.5) / p);
  const std::vector<float> four = {0.5F, 0.25F, 0.125F, 0.125F};
  const RealDistribution distribution = real_oracle_from_probs(four, {.top_p = 0.625F}, legacy);
  EXPECT_DOUBLE_EQ(distribution.probability[0], 0.5 / 0.625);
  EXPECT_DOUBLE_EQ(distribution.probability[1], 0.125 / 0.625);
  // In all other engines, and in this one without a nucleus, the token is drawn with its whole
  // mass.
  const RealDistribution whole =
      real_oracle_from_probs(four, {.top_p = 0.625F}, exactly("trtllm_torch"));
  EXPECT_DOUBLE_EQ(whole.probability[0], 2.0 / 3);
  const RealDistribution no_nucleus = real_oracle_from_probs(four, {.top_p = 1}, legacy);
  EXPECT_DOUBLE_EQ(no_nucleus.probability[0], 0.5);
  // With top_k, the share .625 of the mass of its survivors, 3/4, is 15/32.
  const RealDistribution both = real_oracle_from_probs(four, {.top_k = 2, .top_p = 0.75F}, legacy);
  EXPECT_DOUBLE_EQ(both.probability[0], 0.5 / (0.75 * 0.75));
}

TEST(EngineProfiles, ATokenThatIsPartlyDrawnHasNoFrequency) {
  const std::vector<float> probs = {0.5F, 0.25F, 0.125F, 0.125F};
  const RealDistribution distribution =
      real_oracle_from_probs(probs, {.top_p = 0.625F}, exactly("trtllm_legacy"));
  EXPECT_EQ(distribution.partly_drawn, 1);
  EXPECT_EQ(distribution.membership[1], Membership::in);
  EXPECT_TRUE(distribution.has_frequency(0));
  EXPECT_FALSE(distribution.has_frequency(1));
  EXPECT_FALSE(distribution.has_frequency(2));
  // The last token is drawn with its whole mass, or is the only token.
  EXPECT_EQ(real_oracle_from_probs(probs, {}, exactly("trtllm_legacy")).partly_drawn, -1);
  EXPECT_EQ(real_oracle_from_probs(probs, {.top_p = 0.25F}, exactly("trtllm_legacy")).partly_drawn,
            -1);
  EXPECT_EQ(real_oracle_from_probs(probs, {.top_p = 0.625F}, exactly("hf")).partly_drawn, -1);
}

TEST(EngineProfiles, AFloorLeavesOpenWhatWasOpen) {
  // It is not defined which of the last two tokens is kept, so each of their frequencies is either
  // 1/8 or 1e-9.
  const std::vector<float> probs = {0.5F, 0.25F, 0.125F, 0.125F};
  const RealDistribution distribution =
      real_oracle_from_probs(probs, {.top_p = 0.875F}, exactly("rosellm"));
  EXPECT_EQ(answer(distribution), "ii??");
  EXPECT_EQ(distribution.support_low, 4);
  EXPECT_GT(distribution.ambiguous_mass, 0);
}

TEST(EngineProfiles, TheBoundOfATruncatedDistributionCoversItsSlack) {
  // The sampler's weights are off by the bound of its profile, upwards in front of the crossing
  // token. The distance of the sampler's distribution from the oracle's must be within the total
  // variation bound.
  const Semantics legacy = *find_profile("trtllm_legacy");
  const double off = legacy.relative_weight_error;
  const std::vector<float> logits = {0, -1, -2, -3};
  const float p = 0.75F;
  const RealDistribution distribution = real_oracle(
      logits, {}, {.top_p = p}, legacy, {.constant = 0, .per_octave = 0, .truncation = false});
  std::vector<double> weight = {1, std::exp(-1), std::exp(-2), std::exp(-3)};
  weight[0] *= 1 + off;
  const double budget = static_cast<double>(p) * (weight[0] + weight[1] + weight[2] + weight[3]);
  ASSERT_GT(budget, weight[0]);  // the second token is the one that crosses p
  ASSERT_LT(budget, weight[0] + weight[1]);
  const double distance = std::abs(weight[0] / budget - distribution.probability[0]);
  EXPECT_GT(distance, 0);
  EXPECT_LE(distance, distribution.total_variation_bound);
  EXPECT_LT(distribution.total_variation_bound, 0.01);
}

TEST(EngineProfiles, LlamaCppDrawsAtTheTemperatureAfterFiltersAtOne) {
  const RealDistribution distribution =
      real_oracle(kOctaves, {}, {.temperature = 0.5F, .top_p = 0.8F}, exactly("llamacpp"));
  EXPECT_NEAR(distribution.probability[0], 1 / (1 + std::exp(-2.0)), 0x1p-40);
}

TEST(EngineProfiles, MaxGivesBannedTokensALogitOfMinusTenThousand) {
  const std::vector<float> logits = {0, 0, 0};
  const std::vector<std::uint32_t> allowed = {0b101};
  const RowParameters hot = {.temperature = 10'000};
  const RealDistribution distribution = real_oracle(logits, allowed, hot, exactly("max_gpu"));
  EXPECT_EQ(answer(distribution), "iii");
  EXPECT_NEAR(distribution.probability[1], std::exp(-1.0) / (2 + std::exp(-1.0)), 0x1p-40);
  EXPECT_EQ(answer(real_oracle(logits, allowed, hot, exactly("vllm_torch"))), "ioi");
  // At usual temperatures the token is never drawn, so a mask may contain it or not.
  const RealDistribution cool = real_oracle(logits, allowed, {}, exactly("max_gpu"));
  EXPECT_EQ(answer(cool), "i?i");
  EXPECT_EQ(cool.probability[1], 0);
  EXPECT_EQ(cool.support_low, 2);
  EXPECT_EQ(cool.support_high, 3);
}

TEST(EngineProfiles, FlashInferTakesProbabilitiesThatSumToOne) {
  const std::vector<float> short_of_one = {0.125F, 0.125F, 0.125F, 0.25F};
  const RowParameters off = {.top_k = 4};
  EXPECT_FALSE(real_oracle_from_probs(short_of_one, off, exactly("flashinfer")).defined);
  EXPECT_TRUE(real_oracle_from_probs(short_of_one, off, exactly("vllm_torch")).defined);
  EXPECT_TRUE(real_oracle_from_probs(kHalves, off, exactly("flashinfer")).defined);
}

TEST(EngineProfiles, TritonLeavesOpenWhatItsBisectionDoesNotSeparate) {
  // The row has a tail of tokens with 2^-20 of the maximum each, below the 2^-18 that the search
  // resolves, and larger tokens above it.
  std::vector<float> probs = {0.5F, 0.25F};
  for (int i = 0; i < 1024; ++i) probs.push_back(0x1p-21F * (1 + static_cast<float>(i) * 0x1p-12F));
  Semantics triton = *find_profile("vllm_triton");
  triton.relative_weight_error = triton.relative_sum_error = 0;
  const RealDistribution distribution = real_oracle_from_probs(probs, {.top_p = 0.9995F}, triton);
  EXPECT_EQ(distribution.membership[0], Membership::in);
  EXPECT_EQ(distribution.membership[1], Membership::in);
  for (std::size_t id = 2; id < probs.size(); ++id) {
    ASSERT_EQ(distribution.membership[id], Membership::ambiguous) << id;
  }
  // If bisection determines the end of the nucleus, the result is decided, both for the row and for
  // top_k.
  EXPECT_EQ(answer(real_oracle_from_probs(kHalves, {.top_p = 0.625F}, triton)), "iioo");
  const std::vector<float> uneven = {0.5F, 0.3125F, 0.1875F};  // p = 0.8125 takes two tokens; 8/13
                                                               // takes one of two
  EXPECT_EQ(answer(real_oracle_from_probs(uneven, {.top_p = 0.875F}, triton)), "iii");
  EXPECT_EQ(answer(real_oracle_from_probs(uneven, {.top_k = 2, .top_p = 0.875F}, triton)), "iio");
  // Two equal tokens at the end of the nucleus are decided too, because both are needed.
  const std::vector<float> twins = {0.5F, 0.25F, 0.25F};
  EXPECT_EQ(answer(real_oracle_from_probs(twins, {.top_p = 0.875F}, triton)), "iii");
}

TEST(EngineProfiles, SumsOneAfterAnotherAreJudgedByTheirLength) {
  // The row has 1024 equal tokens and p = 1/2: with 1023 additions the nucleus may end two tokens
  // early or late; with 32 tokens it may not.
  const Semantics llama = *find_profile("llamacpp");
  const auto open_tokens = [&](std::size_t vocab) {
    const std::vector<float> probs(vocab, 1.0F / static_cast<float>(vocab));
    const RealDistribution distribution =
        real_oracle_from_probs(probs, {.top_p = 0.5F + 0.5F / static_cast<float>(vocab)}, llama);
    return distribution.support_high - distribution.support_low;
  };
  EXPECT_EQ(open_tokens(32), 0);
  EXPECT_GT(open_tokens(16384), 2);
}

TEST(SemanticChoices, HaveANameForEveryChoiceOfEveryProfile) {
  for (const std::string& name : profile_names()) {
    for (const Choice& choice : semantic_choices()) {
      std::size_t set = 0;
      for (const ChoiceValue& value : choice.values) {
        if (value.is_set(*find_profile(name))) ++set;
        Semantics changed = *find_profile(name);
        value.set(changed);
        EXPECT_EQ(choice.of(changed).name, value.name) << name << ", " << choice.name;
      }
      EXPECT_EQ(set, 1U) << name << ", " << choice.name;
    }
  }
  // A value that occurs in no profile also has no name.
  Semantics odd = *find_profile("fairdraw");
  odd.greedy_below = 3;
  EXPECT_THROW(
      {
        for (const Choice& choice : semantic_choices()) choice.of(odd);
      },
      std::logic_error);
}

TEST(SemanticChoices, TellAllProfilesApart) {
  const auto names = profile_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      std::size_t differences = 0;
      for (const Choice& choice : semantic_choices()) {
        if (choice.of(*find_profile(names[i])).name != choice.of(*find_profile(names[j])).name) {
          ++differences;
        }
      }
      EXPECT_GT(differences, 0U) << names[i] << " and " << names[j];
    }
  }
}

}  // namespace
}  // namespace fairdraw::reference
