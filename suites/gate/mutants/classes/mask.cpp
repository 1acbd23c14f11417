// Mutants with wrong filters: they keep a token that must be removed, or remove a token that must
// be kept.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

bool has_top_p(const Row& row) { return !is_greedy(row) && row.parameters.top_p < 1; }

bool has_top_k(const Row& row) { return !is_greedy(row) && filters_by_k(row); }

// Returns the survivors of all filters except top_p.
Result before_top_p(const Row& row) {
  return result_with(row, [](Parameters& p) { p.top_p = 1; });
}

Result before_top_k_and_top_p(const Row& row) {
  return result_with(row, [](Parameters& p) {
    p.top_k = 0;
    p.top_p = 1;
  });
}

// Returns whether all probabilities underflow if they are computed relative to the mean of the
// remaining scores plus ten deviations.
bool underflows_below_ten_deviations(const Scores& scores) {
  double n = 0;
  double sum = 0;
  double squares = 0;
  double largest = kOut;
  for (const double score : scores) {
    if (score == kOut) continue;
    n += 1;
    sum += score;
    squares += score * score;
    largest = std::max(largest, score);
  }
  if (n == 0) return false;
  const double average = sum / n;
  const double deviation = std::sqrt(std::max(squares / n - average * average, 0.0));
  return std::exp(static_cast<float>(largest - (average + 10 * deviation))) == 0;
}

double share(const Candidate& token, const Result& of) {
  return static_cast<double>(token.weight) / static_cast<double>(of.total);
}

// Applies top_p to the survivors of all other filters, in the order of their ranks. `keeps(before,
// after)` decides from the mass before a token, and from the mass with this token. The first token
// is always kept.
void nucleus(Result& result, const Row& row,
             const std::function<bool(double before, double after)>& keeps) {
  if (!has_top_p(row) || result.status != RowStatus::ok) return;
  result = before_top_p(row);
  std::vector<Candidate> kept;
  double before = 0;
  for (const Candidate& token : ranked(result, row)) {
    const double after = before + share(token, result);
    if (kept.empty() || keeps(before, after)) kept.push_back(token);
    before = after;
  }
  keep_only(result, kept);
}

// Applies top_p by a heap: pushes every candidate, and pops the smallest one while the sum exceeds
// p.
void nucleus_by_heap(Result& result, const Row& row, const Place&) {
  if (!has_top_p(row) || result.status != RowStatus::ok) return;
  result = before_top_p(row);
  const auto larger = [](const Candidate& a, const Candidate& b) { return a.weight > b.weight; };
  std::vector<Candidate> heap;
  double sum = 0;
  std::vector<Candidate> in_id_order = ranked(result, row);
  std::ranges::sort(in_id_order, {}, &Candidate::id);
  for (const Candidate& token : in_id_order) {
    heap.push_back(token);
    std::push_heap(heap.begin(), heap.end(), larger);
    sum += share(token, result);
    while (sum > static_cast<double>(row.parameters.top_p) && heap.size() > 1) {
      sum -= share(heap.front(), result);
      std::pop_heap(heap.begin(), heap.end(), larger);
      heap.pop_back();
    }
  }
  keep_only(result, heap);
}

// Removes tokens from the small end, as if the mass of the survivors of top_k were still 1.
void top_p_of_unnormalised(Result& result, const Row& row, const Place&) {
  if (!has_top_p(row) || result.status != RowStatus::ok) return;
  result = before_top_p(row);
  std::vector<Candidate> tokens = ranked(result, row);
  std::vector<Candidate> kept;
  double mass = 0;
  for (std::size_t i = tokens.size(); i > 0; --i) {
    mass +=
        static_cast<double>(tokens[i - 1].weight) / static_cast<double>(result.total_unfiltered);
    if (mass > 1 - static_cast<double>(row.parameters.top_p)) kept.push_back(tokens[i - 1]);
  }
  keep_only(result, kept);
}

// Sorts by only 8 bits of the logit, and equal values by id.
void coarse_sort(Result& result, const Row& row, const Place&) {
  if (!(has_top_p(row) || has_top_k(row)) || result.status != RowStatus::ok) return;
  result = before_top_k_and_top_p(row);
  std::vector<Candidate> tokens = ranked(result, row);
  const double high = static_cast<double>(tokens.front().value);
  const double step = std::max((high - static_cast<double>(tokens.back().value)) / 255, 1e-300);
  const auto bucket = [=](const Candidate& token) {
    return std::floor((high - static_cast<double>(token.value)) / step);
  };
  std::ranges::sort(tokens, [&](const Candidate& a, const Candidate& b) {
    return bucket(a) != bucket(b) ? bucket(a) < bucket(b) : a.id < b.id;
  });
  if (has_top_k(row)) {
    tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(row.parameters.top_k)));
  }
  double total = 0, before = 0;
  for (const Candidate& token : tokens) total += static_cast<double>(token.weight);
  std::vector<Candidate> kept;
  for (const Candidate& token : tokens) {
    if (before < static_cast<double>(row.parameters.top_p) * total) kept.push_back(token);
    before += static_cast<double>(token.weight);
  }
  keep_only(result, kept);
}

void allow_from(Row& row, std::size_t first) {
  for (std::size_t id = first; !row.allowed.empty() && id < row.logits.size(); ++id) {
    row.allowed[id / 32] |= 1U << (id % 32);
  }
}

constexpr Entry kMask[] = {
    {"topp-drops-crossing", "llama.cpp PR #1953; fish-speech PR #1171; Biohub/esm PR #360",
     "top_p keeps the largest prefix of mass at most p, so the token that crosses p is lost",
     [](Result& result, const Row& row) {
       nucleus(result, row, [p = static_cast<double>(row.parameters.top_p)](double, double after) {
         return after <= p;
       });
     }},
    {"topp-extra-at-equality", "HF transformers issue #18976",
     "top_p keeps one token too many where a partial sum equals p exactly",
     By("mask/mass_exactly_p/v31/partial_sums", Base::integers),
     [](Result& result, const Row& row) {
       nucleus(result, row, [p = static_cast<double>(row.parameters.top_p)](double before, double) {
         return before <= p;
       });
     }},
    {"topp-nonprefix-heap", "exllamav2 sampling.cpp @617d697",
     "top_p keeps what is left in a heap that pops the smallest while the sum exceeds p: no prefix "
     "of the ranking",
     nucleus_by_heap},
    // The pivot for top_p is searched above the smallest probability, so that a nucleus of all
    // tokens loses the tokens of that probability.
    {"topp-loses-the-smallest", "vLLM 0.33 topk_topp_triton.py",
     "top_p keeps what is above a pivot, which is searched for above the smallest probability: "
     "where all tokens are needed, the smallest are lost",
     By("mask/few_allowed/*"),
     [](Result& result, const Row& row, const Place&) {
       if (!has_top_p(row) || result.status != RowStatus::ok) return;
       const Result before = before_top_p(row);
       if (result.support_size != before.support_size) return;
       std::vector<Candidate> kept = ranked(result, row);
       if (kept.front().value == kept.back().value) return;
       std::erase_if(kept, [smallest = kept.back().value](const Candidate& token) {
         return token.value == smallest;
       });
       keep_only(result, kept);
     }},
    {"topp-one-drops-a-tail", "top_p 1 is taken for 1 - 2^-20: the smallest tokens go",
     By("mask/peaked/v1000/edges mask/zipf/v1000/edges", Base::vllm_cdf),
     [](Scores& scores, float top_p) { float_top_p(scores, top_p == 1 ? 1 - 0x1p-20F : top_p); }},
    {"topp-underflows-below-ten-deviations", "vLLM 0.33 topk_topp_triton.py",
     "probabilities are taken relative to the average logit plus ten deviations: where all of them "
     "underflow, top_p filters nothing",
     By("mask/gaussian/v1000/scattered mask/peaked/v1000/scattered", Base::vllm_cdf),
     [](Scores& scores, float top_p) {
       if (!underflows_below_ten_deviations(scores)) float_top_p(scores, top_p);
     }},
    {"topp-cumsum-of-logprobs", "tiny-llm issue #32",
     "top_p sums log-probabilities, which never reach p; where the first token alone has mass p, "
     "nothing is left",
     By("mask/gaussian_wide/v1000/edges", Base::vllm_cdf),
     [](Scores& scores, float top_p) {
       const std::vector<float> probs = float_softmax(scores);
       if (*std::ranges::max_element(probs) < top_p) return;
       std::ranges::fill(scores, kOut);
     }},
    {"mask-fill-1e-10", "minGPT issue #10",
     "filtered logits become 1e-10 instead of -inf: tokens that can be drawn",
     By("mask/all_negative/v1000/edges", Base::vllm_cdf),
     [](FloatMutation& mutation) {
       mutation.filtered = [](Scores& scores, const Logits&, const Parameters& parameters) {
         for (double& score : scores) {
           if (score == kOut) score = static_cast<double>(1e-10F / parameters.temperature);
         }
       };
     }},
    {"topk-then-topp-unnormalised", "mlx-lm PR #388",
     "top_p takes the mass that top_k left for 1, and may drop everything",
     By("mask/*/v32000/everyday"), top_p_of_unnormalised},
    {"topk-before-topp-renorm", "SGLang PR #36173; sglang-jax PR #1563; onnxruntime-genai PR #1371",
     "the joint order is asked for, and top_p is measured on what top_k left",
     By("mask/gaussian/v1000/everyday+joint"),
     [](Row& row) { row.filter_order = FilterOrder::top_k_first; }},
    {"minp-in-logit-space", "sglang-jax PR #1563; state-spaces/mamba PR #1010",
     "min_p times the largest logit is the threshold on logits, and what goes becomes 0",
     By("mask/all_negative/v1000/edges mask/gaussian/v1000/edges", Base::vllm_cdf),
     [](FloatMutation& mutation) {
       mutation.min_p = [](Scores& scores, const Logits& logits, const Parameters& parameters) {
         if (parameters.min_p == 0) return;
         const float largest = *std::ranges::max_element(logits);
         for (std::size_t id = 0; id < logits.size(); ++id) {
           if (logits[id] >= parameters.min_p * largest) continue;
           scores[id] = 0;
         }
       };
     }},
    {"nucleus-over-approximate-sort", "ollama transforms.go @00a948ad",
     "tokens are sorted by 8 bits of their logits only", By("mask/*/v32000/everyday"), coarse_sort},
    {"topk-threshold-estimator-collapses", "FreeToken PR #345",
     "where one token has more than 0.4 of the mass the estimated threshold of top_k collapses and "
     "everything is kept",
     By("mask/head_and_tail/v1000/edges mask/peaked/*"),
     [](Result& result, const Row& row) {
       if (!has_top_k(row) || result.status != RowStatus::ok) return;
       const Result all = result_with(row, [](Parameters& p) { p.top_k = 0; });
       const RowWeight largest = *std::ranges::max_element(all.weight);
       if (static_cast<double>(largest) > 0.4 * static_cast<double>(all.total_unfiltered)) {
         result = all;
       }
     }},
    // The k-th value is found by a bisection of 12 steps. The mutant keeps the tokens above the
    // last pivot. So are tokens below this pivot that equal the smallest value above the previous
    // pivot.
    {"pivot-search-state-mismatch", "vllm-ascend PR #13847",
     "a bisection that is cut short takes the boundary of one step and the pivot of another",
     By("mask/*/v32000/everyday mask/*/v1000/edges"),
     [](Result& result, const Row& row, const Place&) {
       if (!has_top_k(row) || result.status != RowStatus::ok) return;
       const Result all = before_top_k_and_top_p(row);
       const std::vector<Candidate> tokens = ranked(all, row);
       double low = static_cast<double>(tokens.back().value);
       double high = static_cast<double>(tokens.front().value);
       float smallest_above = tokens.front().value;
       double pivot = high;
       for (int step = 0; step < 12; ++step) {
         float smallest = tokens.front().value;
         pivot = low + (high - low) / 2;
         std::int32_t above = 0;
         for (const Candidate& token : tokens) {
           if (static_cast<double>(token.value) <= pivot) break;
           smallest = token.value;
           ++above;
         }
         // the k-th value has been found, so that the bisection ends in time
         if (above == row.parameters.top_k) return;
         if (step < 11) smallest_above = smallest;
         (above > row.parameters.top_k ? low : high) = pivot;
       }
       std::vector<Candidate> kept;
       for (const Candidate& token : tokens) {
         if (static_cast<double>(token.value) > pivot || token.value == smallest_above) {
           kept.push_back(token);
         }
       }
       result = all;
       keep_only(result, kept);
     }},
    {"topp-renorm-boundary-lost", "FlashInfer issue #2202",
     "the token that crosses p is lost where the mass in front of it is within 1e-5 of p",
     By("mask/mass_exactly_p/v31/partial_sums", Base::integers),
     [](Result& result, const Row& row) {
       nucleus(result, row, [p = static_cast<double>(row.parameters.top_p)](double before, double) {
         return before < p - 1e-5;
       });
     }},
    {"padded-vocab-sampled", "tt-metal PR #47021, #17195; mlx-vlm #1917; lmdeploy PR #3661",
     "the padding behind a row, logits of 0, is sampled too", By("replay/*/v31/* replay/*/v1000/*"),
     [](Row& row, const Place& place) {
       const std::int64_t gap = place.call->row_stride - place.call->vocab;
       if (gap <= 0 || row.from_probs) return;
       row.logits.insert(row.logits.end(), static_cast<std::size_t>(gap), 0.0F);
       if (!row.allowed.empty()) row.allowed.resize((row.logits.size() + 31) / 32, 0xffffffffU);
     }},
    {"bitmask-tail-unmasked", "mlc-llm PR #2651; xgrammar PR #694, #902; modular PR #5498",
     "the last word of the bitmask is not looked at: ids behind the last multiple of 32 are "
     "allowed",
     By("mask/*/v1000/edges/banned"),
     [](Row& row) { allow_from(row, row.logits.size() / 32 * 32); }},
    {"mask-skipped-on-greedy-fast-path", "tt-xla PR #3564, #3415, issue #3563",
     "greedy rows take the largest logit without looking at the bitmask",
     By("mask/*/v1000/edges/banned"),
     [](Row& row) {
       if (row.parameters.temperature == 0) row.allowed.clear();
     }},
    {"rosellm-drops-crossing", "RoseLLM PR 003",
     "every token whose inclusive mass is above p goes: the one that crosses p too",
     By("mask/gaussian_wide/v1000/edges", Base::vllm_cdf),
     [](Scores& scores, float top_p) {
       if (top_p >= 1) return;
       std::vector<std::pair<float, std::size_t>> order;
       const std::vector<float> probs = float_softmax(scores);
       for (std::size_t id = 0; id < probs.size(); ++id) order.emplace_back(-probs[id], id);
       std::ranges::sort(order);
       double mass = 0;
       for (std::size_t i = 0; i < order.size(); ++i) {
         mass += static_cast<double>(probs[order[i].second]);
         if (i > 0 && mass > static_cast<double>(top_p)) scores[order[i].second] = kOut;
       }
     }},
    {"rosellm-clamp-after-masking", "RoseLLM PR 003",
     "probabilities are clamped to 1e-9 from below after masking, so that filtered tokens can be "
     "drawn",
     By("binomial/peaked/v131072/top_k_*", Base::vllm_cdf),
     [](std::vector<float>& probs) {
       for (float& probability : probs) probability = std::max(probability, 1e-9F);
     }},
};

}  // namespace

std::vector<Mutant> mask_mutants() {
  return mutants_of("mask", "mask/*/v1000/edges", Base::distribution, kMask);
}

}  // namespace fairdraw::suites
