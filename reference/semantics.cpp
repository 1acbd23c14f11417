#include "reference/semantics.h"

#include <algorithm>
#include <array>
#include <vector>

#include "reference/float32_bound.h"

namespace fairdraw::reference {
namespace {

// PyTorch: softmax with an exponential within 2 ulp, then a cumulative sum. On the GPU that scans
// blocks of 1024 by a tree of 10 levels and carries over V / 1024 blocks: at V = 2^18, 10 + 256
// additions. On the CPU it accumulates in float64.
constexpr Float32Arithmetic kTorch = {.exp_ulps = 2, .additions = 10 + 256};
// FlashInfer: the same softmax, then one block of 1024 threads sums 4 values a thread a step by a
// tree of 12 levels and adds up V / 4096 = 64 steps.
constexpr Float32Arithmetic kFlashInfer = {.exp_ulps = 2, .additions = 12 + 64};

Semantics fairdraw_profile() {
  Semantics semantics;  // the defaults are the specification
  semantics.name = "fairdraw";
  return semantics;
}

// apply_top_k_top_p_pytorch with the processors that run before it.
Semantics vllm_torch_profile() {
  Semantics semantics;
  semantics.name = "vllm_torch";
  // Masks what is below the k-th largest value, for k = 1 too, so ties stay.
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_k_one = TopKOne::filter;
  // Drops, from the small end of a sort, what has cumulative mass <= 1 - p: that is the rule "mass
  // in front < p" on the renormalised survivors of top-k. The sort is not stable: any of the ties.
  semantics.top_p_boundary = TopPBoundary::mass_above_below_p;
  semantics.top_p_ties = TopPTies::any;
  semantics.top_p_base = TopPBase::renormalised;
  // Runs for rows with p = 1 as well when another row of the batch has p < 1, and then masks what
  // underflowed to zero.
  semantics.top_p_one = TopPOne::filter;
  // A request with p = 0 is refused before; the function itself keeps the last of the sort.
  semantics.top_p_zero = TopPZero::greedy;
  // A processor after the temperature, before top-k and top-p.
  semantics.min_p_place = MinPPlace::before_top_k;
  // 0 and -1 become the vocabulary size; below that the request is refused.
  semantics.top_k_zero = TopKZero::off;
  semantics.top_k_negative = TopKNegative::minus_one_off;
  // Temperatures below 1e-5 take torch.argmax of the logits, which names no winner among equals.
  semantics.temperature_zero = TemperatureZero::greedy;
  semantics.greedy_below = 1e-5;
  semantics.greedy_ties = GreedyTies::any;
  // NaN are counted at best; a row without any allowed token is not detected.
  semantics.nan_logit = NanLogit::undefined;
  return in_float32(semantics, kTorch);
}

// softmax and the *_from_probs samplers, renorm and mask functions, with top_k_first.
Semantics flashinfer_profile() {
  Semantics semantics;
  semantics.name = "flashinfer";
  // Accepts while fewer than k values are strictly larger, for k = 1 too: every tie stays. (The
  // path for k <= 256 at V >= 65536 keeps exactly k; that is another profile.)
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_k_one = TopKOne::filter;
  // Accepts while the mass strictly above is < p, ties included; with p = 1 too.
  semantics.top_p_boundary = TopPBoundary::mass_above_below_p;
  semantics.top_p_ties = TopPTies::keep_all;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.top_p_one = TopPOne::filter;
  // A function of its own, which callers chain after top-k and top-p.
  semantics.min_p_place = MinPPlace::after_top_p;
  // k = 0 and p = 0 give token 0 with valid = false, or a row of nothing, by the function called.
  semantics.top_k_zero = TopKZero::undefined;
  semantics.top_p_zero = TopPZero::undefined;
  // A negative k is read as a huge unsigned one.
  semantics.top_k_negative = TopKNegative::off;
  // softmax multiplies by an inverse temperature of 0: all alike, not the maximum.
  semantics.temperature_zero = TemperatureZero::uniform;
  semantics.greedy_ties = GreedyTies::any;
  semantics.nan_logit = NanLogit::undefined;
  semantics.invalid_parameter = InvalidParameter::undefined;
  return in_float32(semantics, kFlashInfer);
}

// The warpers of Hugging Face transformers, then softmax and torch.multinomial.
Semantics hf_profile() {
  Semantics semantics;
  semantics.name = "hf";
  // Masks scores below the k-th: ties stay. k must be > 0 and is clipped to the vocabulary.
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_k_one = TopKOne::filter;
  semantics.top_k_zero = TopKZero::error;
  semantics.top_k_negative = TopKNegative::error;
  // Drops, from the small end of a sort, what has cumulative mass <= 1 - p and keeps the last one;
  // p = 0 leaves that one. generate() leaves the warper out for p = 1.
  semantics.top_p_boundary = TopPBoundary::mass_above_below_p;
  semantics.top_p_ties = TopPTies::any;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.top_p_zero = TopPZero::greedy;
  semantics.top_p_one = TopPOne::off;
  // The order is temperature, top-k, top-p, min-p.
  semantics.min_p_place = MinPPlace::after_top_p;
  // The temperature must be > 0; greedy decoding is another option.
  semantics.temperature_zero = TemperatureZero::error;
  semantics.greedy_ties = GreedyTies::any;
  // torch.multinomial refuses NaN, which +inf and an empty row turn into.
  semantics.nan_logit = NanLogit::row_error;
  return in_float32(semantics, kTorch);
}

// RoseLLM: two deviations from the usual definitions, the crossing token and the clamp.
Semantics rosellm_profile() {
  Semantics semantics;
  semantics.name = "rosellm";
  // Masks what is below the k-th largest: ties stay. k <= 0 is off; torch.topk refuses k > V.
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_k_one = TopKOne::filter;
  semantics.top_k_negative = TopKNegative::off;
  semantics.top_k_above_vocab = TopKAboveVocab::error;
  // Masks every token whose inclusive cumulative mass is > p, except the first: the token that
  // crosses p is dropped. p <= 0 and p >= 1 are off.
  semantics.top_p_boundary = TopPBoundary::inclusive_mass_at_most_p;
  semantics.top_p_ties = TopPTies::any;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.top_p_zero = TopPZero::off;
  semantics.min_p_place = MinPPlace::none;
  semantics.temperature_zero = TemperatureZero::greedy;
  semantics.greedy_ties = GreedyTies::any;
  // Nothing in it looks for NaN.
  semantics.nan_logit = NanLogit::undefined;
  // Other ranges are not checked (a negative temperature is greedy, p > 1 is off).
  semantics.invalid_parameter = InvalidParameter::undefined;
  // clamp_min(1e-9) on the probabilities, masked ones included, before the draw.
  semantics.masked_probability_floor = 1e-9;
  return in_float32(semantics, kTorch);
}

const std::array<Semantics, 5>& profiles() {
  static const std::array<Semantics, 5> table = {fairdraw_profile(), vllm_torch_profile(),
                                                 flashinfer_profile(), hf_profile(),
                                                 rosellm_profile()};
  return table;
}

}  // namespace

std::span<const std::string> profile_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Semantics& profile : profiles()) all.push_back(profile.name);
    return all;
  }();
  return names;
}

const Semantics* find_profile(std::string_view name) {
  const auto found = std::ranges::find(profiles(), name, &Semantics::name);
  return found == profiles().end() ? nullptr : &*found;
}

}  // namespace fairdraw::reference
