// Samplers written in PyTorch or for it: vLLM's two, SGLang's PyTorch backend, transformers,
// RoseLLM, SonicSampler.
#include "reference/float32_bound.h"
#include "reference/profiles.h"

namespace fairdraw::reference {
namespace {

// PyTorch: softmax with an exponential within 2 ulp, then a cumulative sum. On the GPU the sum
// scans blocks of 1024 by a tree of 10 levels and carries over V / 1024 blocks: at V = 2^18, 10 +
// 256 additions. On the CPU the sum accumulates in float64.
constexpr Float32Arithmetic kTorch = {.exp_ulps = 2, .additions = 10 + 256};
// Arithmetic of a scan and a sum of at most 128 sorted candidates, in any order.
constexpr Float32Arithmetic kCandidates = {.exp_ulps = 2, .additions = 127};

}  // namespace

// apply_top_k_top_p_pytorch with the processors that run before it. Checks of requests before that
// are not part of this profile: they raise temperatures in [1e-5, 0.01) to 0.01 (see the choice
// least_temperature), and refuse p = 0.
Semantics vllm_torch_profile() {
  Semantics semantics;
  semantics.name = "vllm_torch";
  // vLLM masks values below the k-th largest, for k = 1 too, so ties stay.
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_k_one = TopKOne::filter;
  // vLLM drops tokens with cumulative mass <= 1 - p, from the small end of a sort. Dropping from
  // the small end is the rule "mass in front < p" on the renormalised survivors of top-k. The sort
  // is not stable, so any of the ties may stay.
  semantics.top_p_boundary = TopPBoundary::mass_above_below_p;
  semantics.top_p_ties = TopPTies::any;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.sums_from_the_smallest = true;
  // The filter also runs for rows with p = 1 if another row of the batch has p < 1, and then masks
  // tokens whose probability underflowed to zero.
  semantics.top_p_one = TopPOne::filter;
  // A request with p = 0 is refused earlier; the function itself keeps the last token of the sort.
  semantics.top_p_zero = TopPZero::greedy;
  // min_p is a processor after the temperature and before top-k and top-p.
  semantics.min_p_place = MinPPlace::before_top_k;
  // A top_k of 0 or -1 becomes the vocabulary size; smaller values are refused.
  semantics.top_k_zero = TopKZero::off;
  semantics.top_k_negative = TopKNegative::minus_one_off;
  // Temperatures below 1e-5 take torch.argmax of the logits, which does not define the winner of a
  // tie.
  semantics.temperature_zero = TemperatureZero::greedy;
  semantics.greedy_below = 1e-5;
  semantics.greedy_ties = GreedyTies::any;
  // NaN logits are at most counted; a row without an allowed token is not detected.
  semantics.nan_logit = NanLogit::undefined;
  return in_float32(semantics, kTorch);
}

// topk_topp_triton.py, to which vLLM's PyTorch sampler hands batches of 8 or more rows. Requests
// are the same as in vllm_torch; ties follow another rule, and the search is approximate.
Semantics vllm_triton_profile() {
  Semantics semantics = vllm_torch_profile();
  semantics.name = "vllm_triton";
  // Top-k keeps exactly k: duplicates at the boundary are trimmed, and the lowest index wins.
  semantics.top_k_ties = TopKTies::lowest_id;
  // Sums in the kernel are over the values above a pivot.
  semantics.sums_from_the_smallest = false;
  // Duplicates at the end of the nucleus are trimmed to as many as p needs. It is assumed that any
  // of the duplicates may stay.
  semantics.top_p_ties = TopPTies::any;
  // The pivot is found among the probabilities by bisection in at most 18 steps. It is assumed that
  // the interval is at most as long as the largest probability. So the end of the nucleus is open
  // if 18 halvings do not determine it, which includes most tails below 2^-18 of the largest
  // probability.
  semantics.top_p_resolution = 0x1p-18;
  // p = 1 skips the kernel's search.
  semantics.top_p_one = TopPOne::off;
  // A request with p = 0 is refused; the kernel itself masks the whole row (run).
  semantics.top_p_zero = TopPZero::undefined;
  // A pivot that is not below the largest logit skips the masking. The kernel's tests call this a
  // safe fallback for rows of one value; it may keep more than k tokens.
  semantics.equal_row = EqualRow::may_stay;
  return semantics;
}

// --sampling-backend pytorch: top_k_top_p_min_p_sampling_from_probs_torch.
Semantics sglang_torch_profile() {
  Semantics semantics;
  semantics.name = "sglang_torch";
  // SGLang's PyTorch backend sorts and keeps ranks below k, so exactly k.
  semantics.top_k_ties = TopKTies::any_k;
  semantics.top_k_one = TopKOne::filter;
  // SGLang drops a token if the mass in front of it is > p, so at equality it keeps one token more
  // than vLLM. The cumulative sum is over the whole row, whatever top-k drops.
  semantics.top_p_boundary = TopPBoundary::mass_above_at_most_p;
  semantics.top_p_ties = TopPTies::any;
  semantics.top_p_base = TopPBase::joint;
  // Float32 sums above 1 may drop the far tail even at p = 1.
  semantics.top_p_one = TopPOne::filter;
  // min_p is relative to the largest probability, and applied last.
  semantics.min_p_place = MinPPlace::after_top_p;
  // In requests, -1 is off; 0, other negative values and p = 0 are refused (assumed).
  semantics.top_k_zero = TopKZero::error;
  semantics.top_k_negative = TopKNegative::minus_one_off;
  semantics.top_p_zero = TopPZero::error;
  // Temperatures below 1e-6 become 1 with k = 1, or argmax if the whole batch is greedy.
  semantics.temperature_zero = TemperatureZero::greedy;
  semantics.greedy_below = 1e-6;
  semantics.greedy_ties = GreedyTies::any;
  // NaN logits are replaced, or ignored.
  semantics.nan_logit = NanLogit::undefined;
  return in_float32(semantics, kTorch);
}

// The warpers of Hugging Face transformers (logits_process.py), then softmax and torch.multinomial.
Semantics hf_profile() {
  Semantics semantics;
  semantics.name = "hf";
  // top_k masks scores below the k-th, so ties stay. k must be > 0 and is clipped to the
  // vocabulary.
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_k_one = TopKOne::filter;
  semantics.top_k_zero = TopKZero::error;
  semantics.top_k_negative = TopKNegative::error;
  // top_p drops tokens with cumulative mass <= 1 - p, from the small end of a sort, but keeps the
  // last one; p = 0 leaves only that one. generate() omits the warper for p = 1.
  semantics.sums_from_the_smallest = true;
  semantics.top_p_boundary = TopPBoundary::mass_above_below_p;
  semantics.top_p_ties = TopPTies::any;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.top_p_zero = TopPZero::greedy;
  semantics.top_p_one = TopPOne::off;
  // The order is temperature, top-k, top-p, min-p (from memory of generate()).
  semantics.min_p_place = MinPPlace::after_top_p;
  // The temperature must be > 0; greedy decoding is a separate option.
  semantics.temperature_zero = TemperatureZero::error;
  semantics.greedy_ties = GreedyTies::any;
  // torch.multinomial refuses NaN; +inf and empty rows become NaN.
  semantics.nan_logit = NanLogit::row_error;
  return in_float32(semantics, kTorch);
}

// RoseLLM. RoseLLM deviates from the usual definitions in two ways: the crossing token and the
// clamp.
Semantics rosellm_profile() {
  Semantics semantics;
  semantics.name = "rosellm";
  // top_k masks values below the k-th largest, so ties stay. k <= 0 is off; torch.topk refuses k >
  // V, but argmax comes before it.
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_k_one = TopKOne::filter;
  semantics.top_k_negative = TopKNegative::off;
  semantics.top_k_above_vocab = TopKAboveVocab::error_when_random;
  // top_p masks every token whose inclusive cumulative mass is > p, except the first, so the token
  // that crosses p is dropped. p <= 0 and p >= 1 are off.
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
  // RoseLLM checks neither NaN nor other ranges.
  semantics.nan_logit = NanLogit::undefined;
  semantics.invalid_parameter = InvalidParameter::undefined;
  // clamp_min(1e-9) is applied to the probabilities before the draw, also to masked ones.
  semantics.masked_probability_floor = 1e-9;
  return in_float32(semantics, kTorch);
}

// SonicSampler (tachyontrails/sonic-sampler, ops/base.py, ops/singular.py, core/flags.py), as its
// definitions say, in float32. SonicSampler's logits, parameters and noise are bfloat16, which this
// profile does not allow for.
Semantics sonicsampler_profile() {
  Semantics semantics;
  semantics.name = "sonicsampler";
  // top_k sorts by value and then by id, and keeps exactly k of up to 128. A larger k is refused. k
  // <= 0 requests all tokens, though only 128 stay. k = 1 is an argmax of the scaled logits.
  semantics.top_k_ties = TopKTies::lowest_id;
  semantics.top_k_one = TopKOne::filter;
  semantics.top_k_limit = 128;
  semantics.top_k_negative = TopKNegative::off;
  // top_p keeps the first token, and tokens with an inclusive cumulative mass <= p of the survivors
  // of top-k. Values of p outside (0, 1) are off.
  semantics.top_p_boundary = TopPBoundary::inclusive_mass_at_most_p;
  semantics.top_p_ties = TopPTies::lowest_id;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.top_p_zero = TopPZero::off;
  semantics.top_p_above_one = TopPAboveOne::off;
  // min_p is applied last: it keeps logits >= max + ln m.
  semantics.min_p_place = MinPPlace::after_top_p;
  // A request at temperature 0 is one with k = 1 (assumed), which gives the first of the maxima.
  semantics.temperature_zero = TemperatureZero::greedy;
  // SonicSampler does not check NaN, and leaves ranges to its caller.
  semantics.nan_logit = NanLogit::undefined;
  semantics.invalid_parameter = InvalidParameter::undefined;
  return in_float32(semantics, kCandidates);
}

}  // namespace fairdraw::reference
