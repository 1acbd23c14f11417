// This file has the profiles of samplers written in PyTorch or for PyTorch: vLLM's two, SGLang's
// PyTorch backend, transformers, RoseLLM and SonicSampler.
#include "reference/float32_bound.h"
#include "reference/profiles.h"

namespace fairdraw::reference {
namespace {

// PyTorch computes softmax with an exponential within 2 ulp, and then a cumulative sum. On the GPU
// the cumulative sum scans blocks of 1024 by a tree of 10 levels and carries over V / 1024 blocks:
// 10 + 256 additions for V = 2^18. On the CPU the cumulative sum is accumulated in float64.
constexpr Float32Arithmetic kTorch = {.exp_ulps = 2, .additions = 10 + 256};
// The float32 arithmetic of a scan and a sum of at most 128 sorted candidates, in any order.
constexpr Float32Arithmetic kCandidates = {.exp_ulps = 2, .additions = 127};

}  // namespace

// Returns the profile of apply_top_k_top_p_pytorch with the processors that run before it. The
// profile does not include the checks of requests before that: they raise temperatures in [1e-5,
// 0.01) to 0.01 (see the choice least_temperature), and refuse p = 0.
Semantics vllm_torch_profile() {
  Semantics semantics;
  semantics.name = "vllm_torch";
  // vLLM masks values below the k-th largest, so ties with the k-th stay, also for k = 1.
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_k_one = TopKOne::filter;
  // vLLM drops the tokens with a cumulative mass <= 1 - p, counted from the small end of a sort.
  // Dropping from the small end is equivalent to the rule "mass in front < p" on the renormalised
  // survivors of top-k. The sort is not stable, so any of the ties may stay.
  semantics.top_p_boundary = TopPBoundary::mass_above_below_p;
  semantics.top_p_ties = TopPTies::any;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.sums_from_the_smallest = true;
  // The filter also runs for rows with p = 1 if another row of the batch has p < 1, and masks
  // tokens of these rows whose probability underflowed to zero.
  semantics.top_p_one = TopPOne::filter;
  // A request with p = 0 is refused earlier; the function itself would keep the last token of the
  // sort.
  semantics.top_p_zero = TopPZero::greedy;
  // The filter min_p is a processor that runs after the temperature and before top-k and top-p.
  semantics.min_p_place = MinPPlace::before_top_k;
  // A top_k of 0 or -1 becomes the vocabulary size; smaller values are refused.
  semantics.top_k_zero = TopKZero::off;
  semantics.top_k_negative = TopKNegative::minus_one_off;
  // Temperatures below 1e-5 use torch.argmax of the logits, which does not define the winner of a
  // tie.
  semantics.temperature_zero = TemperatureZero::greedy;
  semantics.greedy_below = 1e-5;
  semantics.greedy_ties = GreedyTies::any;
  // vLLM at most counts NaN logits, and does not detect a row without an allowed token.
  semantics.nan_logit = NanLogit::undefined;
  return in_float32(semantics, kTorch);
}

// Returns the profile of topk_topp_triton.py, which vLLM's PyTorch sampler calls for batches of 8
// or more rows. Requests are handled as in vllm_torch; ties follow another rule, and the search is
// approximate.
Semantics vllm_triton_profile() {
  Semantics semantics = vllm_torch_profile();
  semantics.name = "vllm_triton";
  // Top-k keeps exactly k tokens: of the tokens tied at the boundary, those with the lowest index
  // stay.
  semantics.top_k_ties = TopKTies::lowest_id;
  // Sums in the kernel run over the values above a pivot.
  semantics.sums_from_the_smallest = false;
  // Of the tokens tied at the end of the nucleus, the kernel keeps as many as p needs. It is
  // assumed that any of the tied tokens may be the ones that stay.
  semantics.top_p_ties = TopPTies::any;
  // The kernel finds the pivot among the probabilities by bisection in at most 18 steps. It is
  // assumed that the first interval is at most as long as the largest probability. So the end of
  // the nucleus is open if 18 halvings do not determine it; this includes most tails below 2^-18 of
  // the largest probability.
  semantics.top_p_resolution = 0x1p-18;
  // With p = 1 the kernel skips the search.
  semantics.top_p_one = TopPOne::off;
  // vLLM refuses a request with p = 0; the kernel itself would mask the whole row (run).
  semantics.top_p_zero = TopPZero::undefined;
  // If the pivot is not below the largest logit, the kernel masks nothing. The kernel's tests call
  // this case a safe fallback for rows of one value; the row may then keep more than k tokens.
  semantics.equal_row = EqualRow::may_stay;
  return semantics;
}

// Returns the profile of top_k_top_p_min_p_sampling_from_probs_torch, which SGLang uses with
// --sampling-backend pytorch.
Semantics sglang_torch_profile() {
  Semantics semantics;
  semantics.name = "sglang_torch";
  // SGLang's PyTorch backend sorts tokens and keeps ranks below k, so it keeps exactly k tokens.
  semantics.top_k_ties = TopKTies::any_k;
  semantics.top_k_one = TopKOne::filter;
  // SGLang drops a token if the mass in front of it is > p, so at equality it keeps one token more
  // than vLLM. The cumulative sum runs over the whole row, also over tokens that top-k drops.
  semantics.top_p_boundary = TopPBoundary::mass_above_at_most_p;
  semantics.top_p_ties = TopPTies::any;
  semantics.top_p_base = TopPBase::joint;
  // Float32 sums above 1 may drop the far tail even at p = 1.
  semantics.top_p_one = TopPOne::filter;
  // The filter min_p is relative to the largest probability, and is applied last.
  semantics.min_p_place = MinPPlace::after_top_p;
  // In requests, top_k = -1 turns top_k off; top_k = 0, other negative values and p = 0 are refused
  // (assumed).
  semantics.top_k_zero = TopKZero::error;
  semantics.top_k_negative = TopKNegative::minus_one_off;
  semantics.top_p_zero = TopPZero::error;
  // A temperature below 1e-6 becomes 1 with k = 1, or argmax if the whole batch is greedy.
  semantics.temperature_zero = TemperatureZero::greedy;
  semantics.greedy_below = 1e-6;
  semantics.greedy_ties = GreedyTies::any;
  // SGLang's PyTorch backend replaces or ignores NaN logits.
  semantics.nan_logit = NanLogit::undefined;
  return in_float32(semantics, kTorch);
}

// Returns the profile of the warpers of Hugging Face transformers (logits_process.py), followed by
// softmax and torch.multinomial.
Semantics hf_profile() {
  Semantics semantics;
  semantics.name = "hf";
  // The warper of top_k masks scores below the k-th largest, so ties stay. k must be > 0 and is
  // clipped to the vocabulary size.
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_k_one = TopKOne::filter;
  semantics.top_k_zero = TopKZero::error;
  semantics.top_k_negative = TopKNegative::error;
  // The warper of top_p drops tokens with cumulative mass <= 1 - p, counted from the small end of a
  // sort, but always keeps the last one; p = 0 keeps only that token. The function generate() omits
  // the warper for p = 1.
  semantics.sums_from_the_smallest = true;
  semantics.top_p_boundary = TopPBoundary::mass_above_below_p;
  semantics.top_p_ties = TopPTies::any;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.top_p_zero = TopPZero::greedy;
  semantics.top_p_one = TopPOne::off;
  // The filters run in the order temperature, top-k, top-p, min-p (from memory of generate()).
  semantics.min_p_place = MinPPlace::after_top_p;
  // The temperature must be > 0; greedy decoding is a separate option.
  semantics.temperature_zero = TemperatureZero::error;
  semantics.greedy_ties = GreedyTies::any;
  // The function torch.multinomial refuses NaN; rows with +inf and rows without an allowed token
  // become NaN.
  semantics.nan_logit = NanLogit::row_error;
  return in_float32(semantics, kTorch);
}

// RoseLLM. RoseLLM deviates from the usual definitions in two ways: it drops the token that crosses
// p, and it clamps probabilities.
Semantics rosellm_profile() {
  Semantics semantics;
  semantics.name = "rosellm";
  // The filter top_k masks values below the k-th largest, so ties stay. k <= 0 turns it off;
  // torch.topk refuses k > V, but argmax runs before it.
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_k_one = TopKOne::filter;
  semantics.top_k_negative = TopKNegative::off;
  semantics.top_k_above_vocab = TopKAboveVocab::error_when_random;
  // The filter top_p masks every token except the first whose inclusive cumulative mass is > p, so
  // the token that crosses p is dropped. p <= 0 and p >= 1 turn the filter off.
  semantics.top_p_boundary = TopPBoundary::inclusive_mass_at_most_p;
  semantics.top_p_ties = TopPTies::any;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.top_p_zero = TopPZero::off;
  semantics.top_p_above_one = TopPAboveOne::off;
  semantics.min_p_place = MinPPlace::none;
  // A temperature <= 0 takes argmax.
  semantics.temperature_zero = TemperatureZero::greedy;
  semantics.temperature_below_zero = TemperatureBelowZero::greedy;
  semantics.greedy_ties = GreedyTies::any;
  // RoseLLM checks neither for NaN nor for parameters out of range.
  semantics.nan_logit = NanLogit::undefined;
  semantics.invalid_parameter = InvalidParameter::undefined;
  // Before the draw, clamp_min(1e-9) is applied to all probabilities, also to masked ones.
  semantics.masked_probability_floor = 1e-9;
  return in_float32(semantics, kTorch);
}

// Returns the profile of SonicSampler (tachyontrails/sonic-sampler, ops/base.py, ops/singular.py,
// core/flags.py) as its definitions say, in float32. SonicSampler's logits, parameters and noise
// are bfloat16; this profile does not allow for the errors of bfloat16.
Semantics sonicsampler_profile() {
  Semantics semantics;
  semantics.name = "sonicsampler";
  // The filter top_k sorts by value and then by id, and keeps exactly k tokens; k is at most 128. A
  // larger k is refused. k <= 0 requests all tokens, although only 128 stay. k = 1 is an argmax of
  // the scaled logits.
  semantics.top_k_ties = TopKTies::lowest_id;
  semantics.top_k_one = TopKOne::filter;
  semantics.top_k_limit = 128;
  semantics.top_k_negative = TopKNegative::off;
  // The filter top_p keeps the first token, and those survivors of top-k whose inclusive cumulative
  // mass is <= p. Values of p outside (0, 1) turn the filter off.
  semantics.top_p_boundary = TopPBoundary::inclusive_mass_at_most_p;
  semantics.top_p_ties = TopPTies::lowest_id;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.top_p_zero = TopPZero::off;
  semantics.top_p_above_one = TopPAboveOne::off;
  // The filter min_p is applied last: it keeps logits >= max + ln m, where m is min_p.
  semantics.min_p_place = MinPPlace::after_top_p;
  // A request at temperature 0 is treated as one with k = 1 (assumed), which gives the first of the
  // equal maxima.
  semantics.temperature_zero = TemperatureZero::greedy;
  // SonicSampler does not check for NaN, and leaves checks of ranges to its caller.
  semantics.nan_logit = NanLogit::undefined;
  semantics.invalid_parameter = InvalidParameter::undefined;
  return in_float32(semantics, kCandidates);
}

}  // namespace fairdraw::reference
