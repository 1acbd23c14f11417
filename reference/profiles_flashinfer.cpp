// This file has the profiles of FlashInfer, and of SGLang, whose sampler calls FlashInfer.
#include "reference/float32_bound.h"
#include "reference/profiles.h"

namespace fairdraw::reference {
namespace {

// FlashInfer's softmax has an exponential within 2 ulp. A sum is computed by one block of 1024
// threads: each step adds 4 values per thread by a tree of 12 levels, and V / 4096 = 64 steps are
// added up.
constexpr Float32Arithmetic kFlashInfer = {.exp_ulps = 2, .additions = 12 + 64};

}  // namespace

// Returns the profile of softmax, the *_from_probs samplers, and the functions that renormalise and
// mask, with filter_apply_order = "top_k_first".
Semantics flashinfer_profile() {
  Semantics semantics;
  semantics.name = "flashinfer";
  // FlashInfer accepts a token while fewer than k values are strictly larger, for k = 1 too, so
  // every tie stays (emulated, and reported in issue 3774). Another code path of top-k has a
  // profile of its own, flashinfer_fast.
  semantics.top_k_ties = TopKTies::keep_all;
  semantics.top_k_one = TopKOne::filter;
  // FlashInfer accepts a token while the mass strictly above it is < p, also for tied tokens and
  // for p = 1.
  semantics.top_p_boundary = TopPBoundary::mass_above_below_p;
  semantics.top_p_ties = TopPTies::keep_all;
  semantics.top_p_base = TopPBase::renormalised;
  semantics.top_p_one = TopPOne::filter;
  // The filter min_p is a separate function, which callers apply after top-k and top-p.
  semantics.min_p_place = MinPPlace::after_top_p;
  // Depending on the function called, k = 0 and p = 0 give token 0 with valid = false (emulated),
  // or an empty row.
  semantics.top_k_zero = TopKZero::undefined;
  semantics.top_p_zero = TopPZero::undefined;
  // FlashInfer reads a negative k as a huge unsigned number.
  semantics.top_k_negative = TopKNegative::off;
  // The function softmax multiplies by an inverse temperature of 0, so all tokens are equally
  // likely, not only the maxima.
  semantics.temperature_zero = TemperatureZero::uniform;
  semantics.greedy_ties = GreedyTies::any;
  // A NaN logit resets the maximum, a tile with +inf is skipped, and an empty row gives undefined
  // results.
  semantics.nan_logit = NanLogit::undefined;
  semantics.invalid_parameter = InvalidParameter::undefined;
  // The draw never divides by the sum; if the sum is below 1, the last token gets the rest
  // (emulated).
  semantics.probability_sum = ProbabilitySum::one;
  return in_float32(semantics, kFlashInfer);
}

// Returns the profile of top_k_top_p_sampling_from_logits with an integer k, if
// _top_k_first_fast_path_applicable: a sorted top-k of exactly k values, with an arbitrary choice
// among ties. Otherwise like flashinfer.
Semantics flashinfer_fast_profile() {
  Semantics semantics = flashinfer_profile();
  semantics.name = "flashinfer_fast";
  semantics.top_k_ties = TopKTies::any_small_k;
  return semantics;
}

// With filter_apply_order = "joint", top-p refers to the mass of the whole row.
Semantics flashinfer_joint_profile() {
  Semantics semantics = flashinfer_profile();
  semantics.name = "flashinfer_joint";
  semantics.top_p_base = TopPBase::joint;
  return semantics;
}

// Returns the profile of softmax followed by cake_sampling's top_k_top_p_sampling_from_probs, for
// batches in which every top_k is in 1 to 1024 and below the vocabulary size. FlashInfer passes
// other batches to the function that the profile flashinfer describes.
Semantics flashinfer_cake_profile() {
  Semantics semantics = flashinfer_profile();
  semantics.name = "flashinfer_cake";
  // The function takes the first k tokens by descending probability and then by ascending index,
  // and of these the shortest prefix that holds at least p times their mass.
  semantics.top_k_ties = TopKTies::lowest_id;
  semantics.top_p_ties = TopPTies::lowest_id;
  // The value p <= 0 means the argmax; p >= 1 keeps all tokens of probability above 0.
  semantics.top_p_zero = TopPZero::filter;
  semantics.top_p_one = TopPOne::off;
  // A negative k becomes 1 in a batch that also has a positive k; other batches are passed on.
  semantics.top_k_negative = TopKNegative::undefined;
  return semantics;
}

// Returns the profile of SGLang with its default backend on CUDA. If no row of the batch has min_p,
// SGLang calls top_k_top_p_sampling_from_probs(joint); otherwise it calls top_k_renorm,
// top_p_renorm and min_p_sampling in turn. The oracle works row by row, so it judges only batches
// in which either all rows have min_p or none has it.
Semantics sglang_profile() {
  Semantics semantics = flashinfer_profile();
  semantics.name = "sglang";
  semantics.top_p_base = TopPBase::joint_without_min_p;
  // In requests, top_k = -1 turns top_k off; top_k = 0, other negative values and p = 0 are refused
  // (assumed).
  semantics.top_k_zero = TopKZero::error;
  semantics.top_k_negative = TopKNegative::minus_one_off;
  semantics.top_p_zero = TopPZero::error;
  semantics.invalid_parameter = InvalidParameter::row_error;
  // A temperature below 1e-6 becomes 1 with k = 1 (which draws among the ties), or argmax if the
  // whole batch is greedy.
  semantics.temperature_zero = TemperatureZero::greedy;
  semantics.greedy_below = 1e-6;
  semantics.greedy_ties = GreedyTies::any;
  return semantics;
}

}  // namespace fairdraw::reference
