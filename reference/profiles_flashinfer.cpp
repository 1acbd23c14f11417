// FlashInfer, and SGLang, whose sampler calls it.
#include "reference/float32_bound.h"
#include "reference/profiles.h"

namespace fairdraw::reference {
namespace {

// FlashInfer's softmax has an exponential within 2 ulp. For sums, one block of 1024 threads adds 4
// values per thread and step by a tree of 12 levels, and adds up V / 4096 = 64 steps.
constexpr Float32Arithmetic kFlashInfer = {.exp_ulps = 2, .additions = 12 + 64};

}  // namespace

// softmax and the *_from_probs samplers, renorm and mask functions, with top_k_first.
Semantics flashinfer_profile() {
  Semantics semantics;
  semantics.name = "flashinfer";
  // FlashInfer accepts a token while fewer than k values are strictly larger, for k = 1 too, so
  // every tie stays (emulated, and reported in issue 3774). Another path of top-k has its own
  // profile, flashinfer_fast.
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_k_one = TopKOne::filter;
  // FlashInfer accepts a token while the mass strictly above it is < p, ties included; with p = 1
  // too.
  semantics.top_p_boundary = TopPBoundary::mass_above_below_p;
  semantics.top_p_ties = TopPTies::keep_all;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.top_p_one = TopPOne::filter;
  // min_p is a separate function, which callers chain after top-k and top-p.
  semantics.min_p_place = MinPPlace::after_top_p;
  // k = 0 and p = 0 give token 0 with valid = false (emulated), or an empty row, depending on the
  // function called.
  semantics.top_k_zero = TopKZero::undefined;
  semantics.top_p_zero = TopPZero::undefined;
  // A negative k is read as a huge unsigned one.
  semantics.top_k_negative = TopKNegative::off;
  // softmax multiplies by an inverse temperature of 0, so all tokens are alike, not only the
  // maxima.
  semantics.temperature_zero = TemperatureZero::uniform;
  semantics.greedy_ties = GreedyTies::any;
  // NaN logits reset the maximum, +inf skips its tile, and empty rows give undefined results.
  semantics.nan_logit = NanLogit::undefined;
  semantics.invalid_parameter = InvalidParameter::undefined;
  // The draw never divides by the sum; a deficit from 1 goes to the last token (emulated).
  semantics.probability_sum = ProbabilitySum::one;
  return in_float32(semantics, kFlashInfer);
}

// top_k_top_p_sampling_from_logits with an integer k, if _top_k_first_fast_path_applicable: a
// sorted top-k of exactly k values, an arbitrary choice among ties. Otherwise like flashinfer.
Semantics flashinfer_fast_profile() {
  Semantics semantics = flashinfer_profile();
  semantics.name = "flashinfer_fast";
  semantics.top_k_ties = TopKTies::any_small_k;
  return semantics;
}

// filter_apply_order = "joint": top-p on the mass of the whole row.
Semantics flashinfer_joint_profile() {
  Semantics semantics = flashinfer_profile();
  semantics.name = "flashinfer_joint";
  semantics.top_p_base = TopPBase::joint;
  return semantics;
}

// softmax, then cake_sampling's top_k_top_p_sampling_from_probs, for batches whose top_k are in 1
// to 1024 and below the vocabulary. Other batches are passed to the function that the profile
// flashinfer describes.
Semantics flashinfer_cake_profile() {
  Semantics semantics = flashinfer_profile();
  semantics.name = "flashinfer_cake";
  // cake_sampling takes the first k tokens by descending probability, then ascending index; of
  // these, the shortest prefix that holds at least p times their mass.
  semantics.top_k_ties = TopKTies::lowest_id;
  semantics.top_p_ties = TopPTies::lowest_id;
  // p <= 0 is the argmax; p >= 1 keeps all tokens with mass.
  semantics.top_p_zero = TopPZero::filter;
  semantics.top_p_one = TopPOne::off;
  // A negative k is clamped to 1 in a batch that has a positive one; otherwise the batch is passed
  // on.
  semantics.top_k_negative = TopKNegative::undefined;
  return semantics;
}

// SGLang with its default backend on CUDA. Without min_p in the batch SGLang calls
// top_k_top_p_sampling_from_probs(joint); with min_p it calls top_k_renorm, top_p_renorm and
// min_p_sampling in turn. The oracle works per row, so only batches are judged in which all rows or
// none have min_p.
Semantics sglang_profile() {
  Semantics semantics = flashinfer_profile();
  semantics.name = "sglang";
  semantics.top_p_base = TopPBase::joint_without_min_p;
  // In requests, -1 is off; 0, other negative values and p = 0 are refused (assumed).
  semantics.top_k_zero = TopKZero::error;
  semantics.top_k_negative = TopKNegative::minus_one_off;
  semantics.top_p_zero = TopPZero::error;
  semantics.invalid_parameter = InvalidParameter::row_error;
  // Temperatures below 1e-6 become 1 with k = 1 (which draws among the ties), or argmax if the
  // whole batch is greedy.
  semantics.temperature_zero = TemperatureZero::greedy;
  semantics.greedy_below = 1e-6;
  semantics.greedy_ties = GreedyTies::any;
  return semantics;
}

}  // namespace fairdraw::reference
