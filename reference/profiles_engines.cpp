// TensorRT-LLM, whose samplers follow different distributions; MAX, whose two backends differ;
// llama.cpp.
#include "reference/float32_bound.h"
#include "reference/profiles.h"

namespace fairdraw::reference {
namespace {

// FlashInfer's arithmetic, the same as in profiles_flashinfer.cpp.
constexpr Float32Arithmetic kFlashInfer = {.exp_ulps = 2, .additions = 12 + 64};
// PyTorch's arithmetic, the same as in profiles_torch.cpp.
constexpr Float32Arithmetic kTorch = {.exp_ulps = 2, .additions = 10 + 256};
// Arithmetic of a single block of 512 threads or more. At V = 2^18 each thread adds 512 values one
// after another, followed by a tree of 10 levels or a scan. Histograms by atomic additions change
// the order, and add at most as many additions as the block has threads. The fast exponential of a
// difference z is ex2.approx (2 ulp) of one more rounded product, which the bound on weights covers
// for samplers that scale.
constexpr Float32Arithmetic kOneBlock = {.exp_ulps = 2, .additions = 512 + 10 + 512};
// Adds one token after another; `sequential_sums` accounts for the additions.
constexpr Float32Arithmetic kSequential = {.exp_ulps = 2, .additions = 0};

}  // namespace

// TorchSampler (sampler_strategy.py) with FlashInfer, the default.
Semantics trtllm_torch_profile() {
  Semantics semantics;
  semantics.name = "trtllm_torch";
  // temperature 0, top_p 0, top_k 1 or min_p 1 are greedy (torch.argmax), whatever the other
  // parameters are.
  semantics.temperature_zero = TemperatureZero::greedy;
  semantics.top_p_zero = TopPZero::greedy;
  semantics.top_k_one = TopKOne::greedy;
  semantics.min_p_one = MinPOne::greedy;
  semantics.greedy_ties = GreedyTies::any;
  // The values k = 0, k >= V, p >= 1 and min_p <= 0 are off. A negative k is assumed to be refused.
  semantics.top_k_zero = TopKZero::off;
  semantics.top_k_negative = TopKNegative::error;
  semantics.top_p_above_one = TopPAboveOne::off;
  // TensorRT-LLM then applies min_p, top_k, top_p, each with renormalisation. All three filters
  // keep ties.
  semantics.min_p_place = MinPPlace::before_top_k;
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_p_ties = TopPTies::keep_all;
  semantics.top_p_boundary = TopPBoundary::mass_above_below_p;
  semantics.top_p_base = TopPBase::renormalised;
  // For NaN a device-side assertion ends the process.
  semantics.nan_logit = NanLogit::row_error;
  semantics.invalid_parameter = InvalidParameter::undefined;
  return in_float32(semantics, kFlashInfer);
}

// sampler/ops/vanilla.py: the same sampler when FlashInfer cannot be used.
Semantics trtllm_vanilla_profile() {
  Semantics semantics = trtllm_torch_profile();
  semantics.name = "trtllm_vanilla";
  // The nucleus ends at the first index of an unstable sort whose cumulative sum is >= p.
  semantics.top_p_ties = TopPTies::any;
  // torch.multinomial refuses NaN (from memory).
  semantics.nan_logit = NanLogit::row_error;
  return in_float32(semantics, kTorch);
}

// fusedSamplingKernels: thresholds on the weight, by radix or by rejection.
Semantics trtllm_fused_profile() {
  Semantics semantics;
  semantics.name = "trtllm_fused";
  semantics.min_p_place = MinPPlace::before_top_k;
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_k_one = TopKOne::filter;
  // The filter keeps a token while the mass strictly above it is <= p Z of the survivors: one more
  // at equality, and with p = 0 the maximum and its ties.
  semantics.top_p_boundary = TopPBoundary::mass_above_at_most_p;
  semantics.top_p_ties = TopPTies::keep_all;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.top_p_zero = TopPZero::filter;
  semantics.top_p_above_one = TopPAboveOne::off;
  semantics.top_k_zero = TopKZero::off;
  semantics.top_k_negative = TopKNegative::off;
  // Temperature 0 is passed as a sentinel value, and answered by argmax in the order of a
  // reduction.
  semantics.temperature_zero = TemperatureZero::greedy;
  semantics.greedy_ties = GreedyTies::any;
  semantics.min_p_one = MinPOne::filter;
  // A row with NaN falls back to argmax, or to something undefined.
  semantics.nan_logit = NanLogit::undefined;
  semantics.invalid_parameter = InvalidParameter::undefined;
  return in_float32(semantics, kOneBlock);
}

// samplingTopKKernels.cu and samplingTopPKernels.cu of the C++ runtime. The variant AirTopP is not
// described: derived from its source, it gives all mass of a group of equal tokens to its lowest
// id.
Semantics trtllm_legacy_profile() {
  Semantics semantics;
  semantics.name = "trtllm_legacy";
  // Top-k makes k rounds of argmax, so it keeps exactly k tokens, by the order of a reduction. A
  // hard check limits k to 1024.
  semantics.top_k_ties = TopKTies::any_k;
  semantics.top_k_one = TopKOne::filter;
  semantics.top_k_limit = 1024;
  semantics.top_k_zero = TopKZero::off;
  semantics.top_k_negative = TopKNegative::undefined;
  // The draw adds up the cumulative mass up to u p sum, so the token that crosses p has only the
  // part of its mass below p (arithmetic run: {.5, .5} and p = .6 give .833 and .167).
  semantics.top_p_boundary = TopPBoundary::mass_above_below_p;
  semantics.boundary_mass = BoundaryMass::truncated;
  semantics.top_p_ties = TopPTies::any;
  semantics.top_p_base = TopPBase::renormalised;
  // With a top_k, p = 0 becomes 1; without one, k becomes 1.
  semantics.top_p_zero = TopPZero::off_beside_top_k;
  semantics.min_p_place = MinPPlace::none;
  // Temperature 0 is k = 1 (from memory).
  semantics.temperature_zero = TemperatureZero::greedy;
  semantics.greedy_ties = GreedyTies::any;
  // If no token is found, the last id is emitted "for debug" (reported in issue 2217).
  semantics.nan_logit = NanLogit::last_token;
  semantics.invalid_parameter = InvalidParameter::undefined;
  return in_float32(semantics, kOneBlock);
}

// The promises of TensorRT-LLM's documentation of sampling (docs/source/features/sampling.md),
// whatever its four samplers do, because a user may rely on the documentation alone.
Semantics trtllm_documented_profile() {
  Semantics semantics = trtllm_torch_profile();
  semantics.name = "trtllm_documented";
  // "The minimal subset of tokens with total probability greater than top_p": at equality this
  // keeps one token more than the source and the usual definition.
  semantics.top_p_boundary = TopPBoundary::mass_above_at_most_p;
  // The documentation guarantees no treatment of tied probabilities: neither which of them are kept
  // nor how many.
  semantics.top_k_ties = TopKTies::any_k;
  semantics.top_p_ties = TopPTies::any;
  semantics.tie_counts_are_open = true;
  // The documentation does not mention NaN.
  semantics.nan_logit = NanLogit::undefined;
  return semantics;
}

// topk_topp_sampling_from_prob of Modular MAX: FlashInfer's rejection over exp((l - max) / T).
Semantics max_gpu_profile() {
  Semantics semantics;
  semantics.name = "max_gpu";
  // The kernel accepts a token if fewer than k are strictly larger and the mass above it is <= p Z,
  // with Z of the unmasked row. k = 1 and p = 0 leave the maximum and its ties.
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_k_one = TopKOne::filter;
  semantics.top_p_boundary = TopPBoundary::mass_above_at_most_p;
  semantics.top_p_ties = TopPTies::keep_all;
  semantics.top_p_base = TopPBase::joint;
  semantics.top_p_zero = TopPZero::filter;
  // min_p sets weights to 0 during the search and leaves the budget p Z unchanged. All tokens above
  // a kept token are kept too, so the distribution is that of min_p applied last.
  semantics.min_p_place = MinPPlace::after_top_p;
  // A top_k <= 0 means V. -1 means the largest k of the batch, which is V for a single row
  // (derived).
  semantics.top_k_zero = TopKZero::off;
  semantics.top_k_negative = TopKNegative::off;
  // Temperatures are raised to 1e-6, so 0 draws among equal maxima, and among logits within 1e-5.
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

// _top_k_sampling of MAX on the CPU: a stable sort of the row. Sums and softmax have the type of
// the logits; this profile is for float32.
Semantics max_cpu_profile() {
  Semantics semantics;
  semantics.name = "max_cpu";
  semantics.top_k_ties = TopKTies::lowest_id;
  semantics.top_k_one = TopKOne::filter;
  // _adjust_top_p: keeps the tokens that survive top-k up to the first whose cumulative mass
  // reaches p, with all of its mass.
  semantics.top_p_boundary = TopPBoundary::mass_above_below_p;
  semantics.top_p_ties = TopPTies::lowest_id;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.top_p_zero = TopPZero::filter;
  semantics.min_p_place = MinPPlace::none;
  // k = -1 is capped at 255; the meaning of 0 is not documented.
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

// llama-sampler.cpp in the default order: top_k, top_p, min_p, temperature, dist (the order is
// reported in an issue that quotes common.h).
Semantics llamacpp_profile() {
  Semantics semantics;
  semantics.name = "llamacpp";
  // top_k uses a partial or a bucket sort, neither of them stable, so it keeps exactly k (run:
  // equal values change places).
  semantics.top_k_ties = TopKTies::any_k;
  semantics.top_k_one = TopKOne::filter;
  semantics.top_k_zero = TopKZero::off;
  semantics.top_k_negative = TopKNegative::off;
  // top_p keeps tokens until the cumulative mass is >= p; p = 0 keeps one token, p >= 1 is off (run
  // at the boundary).
  semantics.top_p_boundary = TopPBoundary::mass_above_below_p;
  semantics.top_p_ties = TopPTies::any;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.top_p_zero = TopPZero::greedy;
  semantics.top_p_one = TopPOne::off;
  semantics.top_p_above_one = TopPAboveOne::off;
  // min_p keeps logits >= max + ln p.
  semantics.min_p_place = MinPPlace::after_top_p;
  // The temperature is applied last, so the filters see temperature 1.
  semantics.temperature_place = TemperaturePlace::after_filters;
  // T <= 0 leaves the first maximum of an array that a filter may have sorted.
  semantics.temperature_zero = TemperatureZero::greedy;
  semantics.temperature_below_zero = TemperatureBelowZero::greedy;
  semantics.greedy_ties = GreedyTies::any;
  // dist alone returns the last index for a NaN or a row of -inf (run); a filter before it may keep
  // or drop the NaN.
  semantics.nan_logit = NanLogit::undefined;
  semantics.invalid_parameter = InvalidParameter::undefined;
  semantics.sequential_sums = true;
  return in_float32(semantics, kSequential);
}

// The samplers that llama.cpp runs as a graph on the GPU: the same chain, with other edge cases.
Semantics llamacpp_backend_profile() {
  Semantics semantics = llamacpp_profile();
  semantics.name = "llamacpp_backend";
  // ggml_top_k refuses a k above the number of candidates.
  semantics.top_k_above_vocab = TopKAboveVocab::error;
  // step(x > 0) drops tokens with exactly min_p of the maximum; with min_p = 1 it drops all
  // (derived).
  semantics.min_p_boundary = MinPBoundary::above;
  return semantics;
}

}  // namespace fairdraw::reference
