// This file has the profiles of TensorRT-LLM, whose samplers follow different distributions, of
// MAX, whose two backends differ, and of llama.cpp.
#include "reference/float32_bound.h"
#include "reference/profiles.h"

namespace fairdraw::reference {
namespace {

// The float32 arithmetic of FlashInfer, the same as in profiles_flashinfer.cpp.
constexpr Float32Arithmetic kFlashInfer = {.exp_ulps = 2, .additions = 12 + 64};
// The float32 arithmetic of PyTorch, the same as in profiles_torch.cpp.
constexpr Float32Arithmetic kTorch = {.exp_ulps = 2, .additions = 10 + 256};
// The float32 arithmetic of a kernel that uses a single block of 512 threads or more. With V = 2^18
// tokens each thread adds 512 values one after another; then a tree of 10 levels, or a scan, adds
// the threads' sums. Histograms by atomic additions change the order of the additions, and add at
// most as many of them as the block has threads. The fast exponential of a difference z is
// ex2.approx (2 ulp) of a product that is rounded once more; for samplers that scale, the bound on
// weights covers this rounding.
constexpr Float32Arithmetic kOneBlock = {.exp_ulps = 2, .additions = 512 + 10 + 512};
// The float32 arithmetic of a sampler that adds one token after another; `sequential_sums` accounts
// for the additions.
constexpr Float32Arithmetic kSequential = {.exp_ulps = 2, .additions = 0};

}  // namespace

// Returns the profile of TorchSampler (sampler_strategy.py) with FlashInfer, the default of
// TensorRT-LLM.
Semantics trtllm_torch_profile() {
  Semantics semantics;
  semantics.name = "trtllm_torch";
  // A row is greedy (torch.argmax) if temperature is 0, top_p is 0, top_k is 1 or min_p is 1,
  // whatever the other parameters are.
  semantics.temperature_zero = TemperatureZero::greedy;
  semantics.top_p_zero = TopPZero::greedy;
  semantics.top_k_one = TopKOne::greedy;
  semantics.min_p_one = MinPOne::greedy;
  semantics.greedy_ties = GreedyTies::any;
  // The values k = 0, k >= V, p >= 1 and min_p <= 0 turn their filters off. It is assumed that a
  // negative k is refused.
  semantics.top_k_zero = TopKZero::off;
  semantics.top_k_negative = TopKNegative::error;
  semantics.top_p_above_one = TopPAboveOne::off;
  // TensorRT-LLM then applies min_p, top_k and top_p, and renormalises after each. All three
  // filters keep tied tokens.
  semantics.min_p_place = MinPPlace::before_top_k;
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_p_ties = TopPTies::keep_all;
  semantics.top_p_boundary = TopPBoundary::mass_above_below_p;
  semantics.top_p_base = TopPBase::renormalised;
  // For NaN logits a device-side assertion ends the process.
  semantics.nan_logit = NanLogit::row_error;
  semantics.invalid_parameter = InvalidParameter::undefined;
  return in_float32(semantics, kFlashInfer);
}

// Returns the profile of sampler/ops/vanilla.py, the same sampler without FlashInfer.
Semantics trtllm_vanilla_profile() {
  Semantics semantics = trtllm_torch_profile();
  semantics.name = "trtllm_vanilla";
  // The nucleus ends at the first index of an unstable sort at which the cumulative sum is >= p.
  semantics.top_p_ties = TopPTies::any;
  // The function torch.multinomial refuses NaN (from memory).
  semantics.nan_logit = NanLogit::row_error;
  return in_float32(semantics, kTorch);
}

// Returns the profile of fusedSamplingKernels, which find thresholds on the weights by radix or by
// rejection.
Semantics trtllm_fused_profile() {
  Semantics semantics;
  semantics.name = "trtllm_fused";
  semantics.min_p_place = MinPPlace::before_top_k;
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_k_one = TopKOne::filter;
  // The filter keeps a token while the mass strictly above it is <= p Z of the survivors: one token
  // more at equality, and the maximum and its ties at p = 0.
  semantics.top_p_boundary = TopPBoundary::mass_above_at_most_p;
  semantics.top_p_ties = TopPTies::keep_all;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.top_p_zero = TopPZero::filter;
  semantics.top_p_above_one = TopPAboveOne::off;
  semantics.top_k_zero = TopKZero::off;
  semantics.top_k_negative = TopKNegative::off;
  // Temperature 0 is passed as a sentinel value; the kernel answers it by an argmax in the order of
  // a reduction.
  semantics.temperature_zero = TemperatureZero::greedy;
  semantics.greedy_ties = GreedyTies::any;
  semantics.min_p_one = MinPOne::filter;
  // For a row with NaN the kernel falls back to argmax, or the result is undefined.
  semantics.nan_logit = NanLogit::undefined;
  semantics.invalid_parameter = InvalidParameter::undefined;
  return in_float32(semantics, kOneBlock);
}

// Returns the profile of samplingTopKKernels.cu and samplingTopPKernels.cu of the C++ runtime. The
// profile does not describe the variant AirTopP: derived from its source, AirTopP gives all mass of
// a group of equal tokens to the lowest id.
Semantics trtllm_legacy_profile() {
  Semantics semantics;
  semantics.name = "trtllm_legacy";
  // Top-k runs k rounds of argmax, so it keeps exactly k tokens; the order of a reduction decides
  // among ties. A check in the code limits k to 1024.
  semantics.top_k_ties = TopKTies::any_k;
  semantics.top_k_one = TopKOne::filter;
  semantics.top_k_limit = 1024;
  semantics.top_k_zero = TopKZero::off;
  semantics.top_k_negative = TopKNegative::undefined;
  // The draw adds up the cumulative mass up to u p sum, so the token that crosses p only has the
  // part of its mass below p (arithmetic run: for {.5, .5}, p = .6 gives .833 and .167).
  semantics.top_p_boundary = TopPBoundary::mass_above_below_p;
  semantics.boundary_mass = BoundaryMass::truncated;
  semantics.top_p_ties = TopPTies::any;
  semantics.top_p_base = TopPBase::renormalised;
  // If top_k is active, p = 0 becomes 1; otherwise p = 0 sets k to 1.
  semantics.top_p_zero = TopPZero::off_beside_top_k;
  semantics.min_p_place = MinPPlace::none;
  // Temperature 0 means k = 1 (from memory).
  semantics.temperature_zero = TemperatureZero::greedy;
  semantics.greedy_ties = GreedyTies::any;
  // If no token is found, the kernel emits the last id "for debug" (reported in issue 2217).
  semantics.nan_logit = NanLogit::last_token;
  semantics.invalid_parameter = InvalidParameter::undefined;
  return in_float32(semantics, kOneBlock);
}

// Returns the promises of TensorRT-LLM's documentation of sampling
// (docs/source/features/sampling.md), whatever its four samplers do, because a user may rely on the
// documentation alone.
Semantics trtllm_documented_profile() {
  Semantics semantics = trtllm_torch_profile();
  semantics.name = "trtllm_documented";
  // The documentation says "The minimal subset of tokens with total probability greater than
  // top_p": at equality such a subset has one token more than the source and the usual definition
  // keep.
  semantics.top_p_boundary = TopPBoundary::mass_above_at_most_p;
  // The documentation guarantees nothing about tied probabilities: neither which tied tokens are
  // kept nor how many.
  semantics.top_k_ties = TopKTies::any_k;
  semantics.top_p_ties = TopPTies::any;
  semantics.tie_counts_are_open = true;
  // The documentation says nothing about NaN.
  semantics.nan_logit = NanLogit::undefined;
  return semantics;
}

// Returns the profile of topk_topp_sampling_from_prob of Modular MAX, which runs FlashInfer's
// rejection over exp((l - max) / T).
Semantics max_gpu_profile() {
  Semantics semantics;
  semantics.name = "max_gpu";
  // The kernel accepts a token if fewer than k values are strictly larger and the mass above it is
  // <= p Z, where Z is the sum of the unmasked row. k = 1 and p = 0 keep the maximum and its ties.
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_k_one = TopKOne::filter;
  semantics.top_p_boundary = TopPBoundary::mass_above_at_most_p;
  semantics.top_p_ties = TopPTies::keep_all;
  semantics.top_p_base = TopPBase::joint;
  semantics.top_p_zero = TopPZero::filter;
  // The search treats tokens below min_p as weight 0, and leaves the limit p Z unchanged. All
  // tokens above a kept token are kept too, so the distribution is the same as with min_p applied
  // last.
  semantics.min_p_place = MinPPlace::after_top_p;
  // A top_k <= 0 means V. The value -1 means the largest k of the batch, which is V for a single
  // row (derived).
  semantics.top_k_zero = TopKZero::off;
  semantics.top_k_negative = TopKNegative::off;
  // Temperatures are raised to at least 1e-6, so at 0 the kernel draws among equal maxima, and
  // among logits within 1e-5 of the maximum.
  semantics.temperature_zero = TemperatureZero::clamped;
  semantics.least_temperature = 1e-6;
  semantics.greedy_ties = GreedyTies::any;
  // Banned tokens get -10000.
  semantics.banned_logit = -10000;
  // Comparisons with NaN are false; a row without a candidate gives token 0.
  semantics.nan_logit = NanLogit::undefined;
  semantics.invalid_parameter = InvalidParameter::undefined;
  return in_float32(semantics, kOneBlock);
}

// Returns the profile of _top_k_sampling of MAX on the CPU, which sorts the row with a stable sort.
// Sums and softmax are computed in the type of the logits; this profile is for float32 logits.
Semantics max_cpu_profile() {
  Semantics semantics;
  semantics.name = "max_cpu";
  semantics.top_k_ties = TopKTies::lowest_id;
  semantics.top_k_one = TopKOne::filter;
  // Of the tokens that top-k keeps, _adjust_top_p keeps those up to the first whose cumulative mass
  // reaches p, and this token keeps all of its mass.
  semantics.top_p_boundary = TopPBoundary::mass_above_below_p;
  semantics.top_p_ties = TopPTies::lowest_id;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.top_p_zero = TopPZero::filter;
  semantics.min_p_place = MinPPlace::none;
  // The value k = -1 means 255; the meaning of 0 is not documented.
  semantics.top_k_zero = TopKZero::undefined;
  semantics.top_k_negative = TopKNegative::first_255;
  semantics.temperature_zero = TemperatureZero::clamped;
  semantics.least_temperature = 1e-6;
  semantics.greedy_ties = GreedyTies::lowest_id;
  semantics.banned_logit = -10000;
  semantics.nan_logit = NanLogit::undefined;
  semantics.invalid_parameter = InvalidParameter::undefined;
  semantics.sequential_sums = true;
  return in_float32(semantics, kSequential);
}

// Returns the profile of llama-sampler.cpp in the default order: top_k, top_p, min_p, temperature,
// dist (an issue that quotes common.h reports this order).
Semantics llamacpp_profile() {
  Semantics semantics;
  semantics.name = "llamacpp";
  // The top_k sampler uses a partial sort or a bucket sort, neither of them stable, so it keeps
  // exactly k tokens (run: equal values change places).
  semantics.top_k_ties = TopKTies::any_k;
  semantics.top_k_one = TopKOne::filter;
  semantics.top_k_zero = TopKZero::off;
  semantics.top_k_negative = TopKNegative::off;
  // The top_p sampler keeps tokens until the cumulative mass is >= p; p = 0 keeps one token, and p
  // >= 1 turns it off (run at the boundary).
  semantics.top_p_boundary = TopPBoundary::mass_above_below_p;
  semantics.top_p_ties = TopPTies::any;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.top_p_zero = TopPZero::greedy;
  semantics.top_p_one = TopPOne::off;
  semantics.top_p_above_one = TopPAboveOne::off;
  // The min_p sampler keeps logits >= max + ln p.
  semantics.min_p_place = MinPPlace::after_top_p;
  // The temperature is applied last, so the filters see temperature 1.
  semantics.temperature_place = TemperaturePlace::after_filters;
  // A temperature T <= 0 keeps the first maximum of an array that a filter may have sorted.
  semantics.temperature_zero = TemperatureZero::greedy;
  semantics.temperature_below_zero = TemperatureBelowZero::greedy;
  semantics.greedy_ties = GreedyTies::any;
  // The sampler dist alone returns the last index for a NaN or for a row of -inf (run); a filter
  // before dist may keep or drop the NaN.
  semantics.nan_logit = NanLogit::undefined;
  semantics.invalid_parameter = InvalidParameter::undefined;
  semantics.sequential_sums = true;
  return in_float32(semantics, kSequential);
}

// Returns the profile of the samplers that llama.cpp runs as a graph on the GPU, which form the
// same chain but differ in edge cases.
Semantics llamacpp_backend_profile() {
  Semantics semantics = llamacpp_profile();
  semantics.name = "llamacpp_backend";
  // The operation ggml_top_k refuses a k above the number of candidates.
  semantics.top_k_above_vocab = TopKAboveVocab::error;
  // The operation step(x > 0) drops tokens with exactly min_p of the maximum; with min_p = 1 it
  // drops all tokens (derived).
  semantics.min_p_boundary = MinPBoundary::above;
  return semantics;
}

}  // namespace fairdraw::reference
